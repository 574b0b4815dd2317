// task_documents.cpp - needles, worlds, tracking and counting with many questions each. See document_builder.h.
#include <algorithm>

#include "corpus/concat.h"
#include "corpus/document_builder.h"
#include "corpus/wording.h"
#include "corpus/words.h"
#include "corpus/worlds.h"

namespace pith::corpus {
namespace {

struct Needle {
    std::string key;
    std::vector<std::string> values;  // in the order of the text
};

// The key as a question names it: its first word is free, its second follows from the context.
void append_key(std::vector<Segment> & out, const std::string & key, bool known) {
    const size_t hyphen = key.find('-');
    out.push_back({concat({" ", std::string_view(key).substr(0, hyphen)}), known ? kAnswerWeight : kRandomWeight});
    out.push_back({key.substr(hyphen), kAnswerWeight});
}

// " a, b, c." and the end.
void append_answer(std::vector<Segment> & out, std::span<const std::string> answers) {
    out.push_back({completion_of(answers), kAnswerWeight, true});
}

// A text with the key in it, split so that the key weighs by itself.
void append_around_key(std::vector<Segment> & out, const std::string & text, const std::string & key, bool known) {
    const size_t at = text.find(concat({" ", key}));
    out.push_back({text.substr(0, at), kPlainWeight});
    append_key(out, key, known);
    out.push_back({text.substr(at + 1 + key.size()), kPlainWeight});
}

// The exact wording with the prefix, the same answered at once, or one of the shorter ways to ask.
Question needle_ask(const Needle & needle, double exact, Random & random) {
    const bool plural = needle.values.size() > 1;
    Question question;
    auto & out = question.segments;
    const double roll = random.uniform();
    if (roll < exact) {
        append_around_key(out, needle_question(needle.key, plural), needle.key, false);
        if (random.chance(0.75)) { append_around_key(out, needle_prefix(needle.key, plural), needle.key, true); }
    } else {
        struct Short {
            std::string_view before, plural_before, after, plural_after;
        };
        static constexpr Short kShort[] = {
            {"\nThe special magic number for ", "\nThe special magic numbers for ", " is:", " are:"},
            {"\nWhat is the number for ", "\nWhat are the numbers for ", "?", "?"},
            {"\nQuestion: ", "\nQuestion: ", "?", "?"},
        };
        const Short & form = kShort[random.below(3)];
        append_around_key(out,
                          plural ? concat({form.plural_before, needle.key, form.plural_after})
                                 : concat({form.before, needle.key, form.after}),
                          needle.key, false);
    }
    append_answer(out, needle.values);
    return question;
}

// Splits n_sentences needles over keys; some keys have several values.
std::vector<Needle> draw_needles(Random & random, int n_sentences, bool several) {
    std::vector<int> sizes;
    for (int left = n_sentences; left > 0;) {
        const int size = several && random.chance(0.6) ? std::min(left, random.between(2, 4)) : 1;
        sizes.push_back(size);
        left -= size;
    }
    const auto keys = draw_needle_keys(random, static_cast<int>(sizes.size()));
    std::vector<Needle> needles;
    for (size_t i = 0; i < sizes.size(); ++i) { needles.push_back({keys[i], draw_needle_values(random, sizes[i])}); }
    return needles;
}

// The order in which the needles' sentences stand: random, but each key's values in their own order.
std::vector<std::pair<size_t, size_t>> sentence_order(std::span<const Needle> needles, Random & random) {
    std::vector<size_t> turns;
    for (size_t k = 0; k < needles.size(); ++k) { turns.insert(turns.end(), needles[k].values.size(), k); }
    random.shuffle(turns);
    std::vector<size_t> next(needles.size(), 0);
    std::vector<std::pair<size_t, size_t>> order;
    for (const size_t k : turns) { order.emplace_back(k, next[k]++); }
    return order;
}

Question fact_ask(const Fact & fact, Random & random) {
    Question question;
    question.segments.push_back({fact_question(random.pick(fact.questions)), kPlainWeight});
    question.segments.push_back({std::string(kFactPrefix), kPlainWeight});
    append_answer(question.segments, std::span(&fact.answer, 1));
    return question;
}

}  // namespace

Document needle_document(Random & random, int n_tokens, const CountTokens & count) {
    DocumentBuilder builder("needles", n_tokens, count);
    const bool small = n_tokens <= 128;
    const bool several = random.chance(small ? 0.15 : 0.35);
    // A third of the longer documents have few needles in much haystack, as the tasks do; the others ask much.
    const int most = std::clamp(n_tokens / (small ? 32 : 48), 2, 16);
    const int n_sentences = !small && random.chance(0.33) ? random.between(several ? 2 : 1, 5) : random.between(2, most);
    const auto needles = draw_needles(random, n_sentences, several);
    const double exact = n_tokens <= 64 ? 0.0 : small ? 0.2 : n_tokens <= 256 ? 0.5 : 0.7;

    Layout layout;
    if (!small || random.chance(0.1)) {
        const bool plural = several || (needles.size() > 1 && random.chance(0.3));
        if (random.chance(0.8)) { layout.preamble = needle_preamble(plural); }
    }
    for (const auto & [k, v] : sentence_order(needles, random)) {
        layout.hidden.push_back(needle_segments(needles[k].key, needles[k].values[v], false));
    }
    layout.noise = random.chance(0.65);
    // Questions: every key once in random order, then again in other words.
    for (int round = 0; round < 3; ++round) {
        for (const int k : random.draw(static_cast<int>(needles.size()), static_cast<int>(needles.size()))) {
            layout.questions.push_back(needle_ask(needles[static_cast<size_t>(k)], exact, random));
        }
        if (n_tokens > 256) { break; }
    }
    int asked = 0;
    for (const auto & question : layout.questions) { asked += builder.cost(question.segments); }
    layout.share = small ? 0.5 : std::max(0.5, 1.0 - static_cast<double>(asked) / n_tokens);
    // Long ones leave room for the questions and no more: the haystack fills the rest.
    lay_out(builder, std::move(layout), random);
    return builder.take();
}

// Facts said once or several times among sentences that do not matter, with a few needles; then questions.
Document world_document(Random & random, int n_tokens, const CountTokens & count) {
    DocumentBuilder builder("world", n_tokens, count);
    const int n_facts = std::clamp(random.between(n_tokens / 40, n_tokens / 24), 2, 32);
    const auto facts = make_world(random, n_facts);
    std::vector<std::vector<Segment>> hidden;
    std::vector<std::vector<Segment>> again;
    for (const auto & fact : facts) {
        hidden.push_back(statement_segments(random.pick(fact.statements), fact.answer, kPlainWeight, kPlainWeight));
        if (random.chance(0.3)) {
            again.push_back(statement_segments(random.pick(fact.statements), fact.answer, kPlainWeight, kAnswerWeight));
        }
    }
    random.shuffle(hidden);
    random.shuffle(again);
    Layout layout;
    layout.noise = false;  // a name at the start of a line would be other pieces than after a space
    layout.share = 0.6;
    if (random.chance(0.5)) { layout.preamble = kFactsPreamble; }
    int room = static_cast<int>(0.55 * n_tokens);
    for (auto * list : {&hidden, &again}) {  // a second statement comes after all first ones
        for (auto & sentence : *list) {
            room -= builder.cost(sentence) + 1;
            if (room < 0 && list == &again) { break; }
            layout.hidden.push_back(std::move(sentence));
        }
    }
    for (int round = 0; round < 2; ++round) {
        for (const int f : random.draw(n_facts, n_facts)) {
            layout.questions.push_back(fact_ask(facts[static_cast<size_t>(f)], random));
        }
    }
    if (!lay_out(builder, std::move(layout), random)) { return pairs_document(random, n_tokens, count); }
    return builder.take();
}

// One to three chains of variables in noise, each asked for.
Document tracking_document(Random & random, int n_tokens, const CountTokens & count) {
    DocumentBuilder builder("vt", n_tokens, count);
    const int length = n_tokens >= 512 ? 5 : random.between(2, 3);
    const int n_chains = n_tokens >= 512 ? random.between(1, 3) : 1;
    const auto names = draw_variable_names(random, length * n_chains);
    Layout layout;
    layout.preamble = kTrackingPreamble;
    std::vector<size_t> turns;
    for (int c = 0; c < n_chains; ++c) { turns.insert(turns.end(), static_cast<size_t>(length), static_cast<size_t>(c)); }
    random.shuffle(turns);
    std::vector<std::string> values;
    for (int c = 0; c < n_chains; ++c) { values.push_back(std::to_string(random.between(10000, 99998))); }
    std::vector<int> next(static_cast<size_t>(n_chains), 0);
    const auto name = [&](size_t chain, int i) { return names[chain * static_cast<size_t>(length) + static_cast<size_t>(i)]; };
    for (const size_t c : turns) {
        const int i = next[c]++;
        std::vector<Segment> line = {{"VAR", kPlainWeight}, {concat({" ", name(c, i)}), kRandomWeight}, {" =", kPlainWeight}};
        if (i == 0) {
            line.push_back({concat({" ", values[c]}), kRandomWeight});
        } else {
            line.push_back({" VAR", kPlainWeight});
            line.push_back({concat({" ", name(c, i - 1)}), 0.5F});  // one of the names so far
        }
        layout.hidden.push_back(std::move(line));
    }
    for (const int c : random.draw(n_chains, n_chains)) {
        const auto chain = static_cast<size_t>(c);
        Question question;
        question.segments = {{tracking_question(values[chain]), kPlainWeight},
                             {tracking_prefix(length, values[chain]), kPlainWeight}};
        std::vector<std::string> answers;
        for (int i = 0; i < length; ++i) { answers.push_back(name(chain, i)); }
        append_answer(question.segments, answers);
        layout.questions.push_back(std::move(question));
    }
    int asked = 0;
    for (const auto & question : layout.questions) { asked += builder.cost(question.segments); }
    layout.share = std::max(0.3, 1.0 - static_cast<double>(asked) / n_tokens);
    if (!lay_out(builder, std::move(layout), random)) { return pairs_document(random, n_tokens, count); }
    return builder.take();
}

// A list to count: a few words are common, the others rare.
Document common_document(Random & random, int n_tokens, const CountTokens & count) {
    DocumentBuilder builder("cwe", n_tokens, count);
    const int n_common = n_tokens >= 512 ? 10 : random.between(1, std::max(2, n_tokens / 64));
    const auto & pool = words::single_words();
    const auto order = random.draw(static_cast<int>(pool.size()), static_cast<int>(pool.size()));
    Question question;
    question.segments = {{common_question(n_common), kPlainWeight}, {common_prefix(n_common), kPlainWeight}};
    // About 3.5 tokens an entry; what remains after the frame is the list, taken a little short, then trimmed to fit.
    const int frame = builder.cost(kCommonPreamble) + builder.cost(question.segments) + 3 * n_common + 4;
    const auto word = [&](int i) { return pool[static_cast<size_t>(order[static_cast<size_t>(i)])]; };
    for (int n_entries = (n_tokens - frame) * 10 / 33; n_entries >= 6 * n_common / 5 + 4;
         n_entries -= std::max(1, n_entries / 40)) {
        const int times = std::max(2, std::min(6, n_entries / (2 * n_common)));
        std::vector<std::string_view> list;
        for (int i = 0; i < n_common * times; ++i) { list.push_back(word(i % n_common)); }
        for (int i = 0; static_cast<int>(list.size()) < n_entries; ++i) {
            list.push_back(word(n_common + i % (static_cast<int>(pool.size()) - n_common)));
        }
        random.shuffle(list);
        std::vector<std::string> answers;
        for (const auto item : list) {
            const bool common = std::find(order.begin(), order.begin() + n_common,
                                          static_cast<int>(std::find(pool.begin(), pool.end(), item) - pool.begin())) !=
                                order.begin() + n_common;
            if (common && std::find(answers.begin(), answers.end(), item) == answers.end()) { answers.emplace_back(item); }
        }
        std::vector<Segment> all = {{std::string(kCommonPreamble), kPlainWeight}, {numbered_list(list), kPlainWeight}};
        all.insert(all.end(), question.segments.begin(), question.segments.end());
        append_answer(all, answers);
        if (builder.add(std::move(all))) { return builder.take(); }
    }
    return pairs_document(random, n_tokens, count);
}

// Stories without questions: facts, fillers and noise.
Document text_document(Random & random, int n_tokens, const CountTokens & count) {
    DocumentBuilder builder("text", n_tokens, count);
    const auto facts = make_world(random, std::clamp(n_tokens / 30, 3, 48));
    std::vector<int> said(facts.size(), 0);
    while (true) {
        // A line starts with a filler, so that names always follow a space.
        const bool new_line = random.chance(0.12);
        const std::string_view separator = builder.empty() ? "" : new_line ? "\n" : " ";
        std::vector<Segment> sentence = {{filler_sentence(random), kPlainWeight}};
        if (!new_line && !builder.empty() && random.chance(0.5)) {
            const auto f = static_cast<size_t>(random.below(static_cast<int>(facts.size())));
            sentence = statement_segments(random.pick(facts[f].statements), facts[f].answer, kPlainWeight,
                                          said[f]++ > 0 ? kAnswerWeight : kPlainWeight);
        }
        sentence.front().text = concat({separator, sentence.front().text});
        if (!builder.add(std::move(sentence))) { return builder.take(); }
    }
}

}  // namespace pith::corpus
