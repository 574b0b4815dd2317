// needle_documents.cpp - values of keys, hidden in noise, stories or among others of their like, and asked for. See
// document_builder.h.
#include <algorithm>

#include "corpus/document_builder.h"
#include "corpus/training_wording.h"
#include "tasks/concat.h"
#include "tasks/identifiers.h"

namespace pith::corpus {
namespace {

struct Needle {
    std::string key;
    std::vector<std::string> values;  // in the order of the text
};

// What the keys and values of a document are.
struct Kinds {
    Kind key = Kind::kCompound;
    Kind value = Kind::kSevenDigits;
    std::string_view what = "number";
};

Kinds draw_kinds(Random & random, int n_tokens) {
    const bool room = n_tokens >= 192;  // for uuids
    Kinds kinds;
    const double key = random.uniform();
    kinds.key = key < 0.66            ? Kind::kCompound
                : key < 0.76          ? Kind::kWord
                : key < 0.84          ? Kind::kCoined
                : key < 0.88 || !room ? Kind::kHex
                                      : Kind::kUuid;
    const double value = random.uniform();
    if (value < 0.5) {
        kinds.value = n_tokens <= 64 ? Kind::kFourDigits : Kind::kSevenDigits;
    } else if (value < 0.78) {
        kinds.value = room ? Kind::kUuid : Kind::kHex;
        kinds.what = room ? "uuid" : "code";
    } else if (value < 0.88) {
        kinds.value = random.chance(0.5) ? Kind::kFourDigits : Kind::kHex;
        kinds.what = "code";
    } else {
        kinds.value = random.chance(0.5) ? Kind::kWord : Kind::kCoined;
        kinds.what = "word";
    }
    return kinds;
}

// Needles whose values are so many each.
std::vector<Needle> draw_needles(Random & random, const Kinds & kinds, std::span<const int> sizes) {
    const auto keys = draw_different(random, kinds.key, static_cast<int>(sizes.size()));
    std::vector<Needle> needles;
    for (size_t i = 0; i < sizes.size(); ++i) { needles.push_back({keys[i], draw_different(random, kinds.value, sizes[i])}); }
    return needles;
}

// Splits n_sentences over keys; some keys have several values.
std::vector<int> split_sentences(Random & random, int n_sentences, bool several) {
    std::vector<int> sizes;
    for (int left = n_sentences; left > 0;) {
        const int size = several && random.chance(0.6) ? std::min(left, random.between(2, 4)) : 1;
        sizes.push_back(size);
        left -= size;
    }
    return sizes;
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

std::vector<Segment> needle_segments(std::string_view form, const Kinds & kinds, const Needle & needle, size_t value) {
    std::vector<Segment> out;
    append_form(out, form,
                {.what = kinds.what,
                 .keys = std::span(&needle.key, 1),
                 .known = Blanks::Keys::kNew,
                 .value = needle.values[value],
                 .value_weight = kRandomWeight});
    return out;
}

// Asks for the values of some keys. `brief`: in as few words as may be.
Question needle_ask(std::span<const Needle> needles, const Kinds & kinds, bool brief, Random & random) {
    std::vector<std::string> keys;
    std::vector<std::string> answers;
    for (const auto & needle : needles) {
        keys.push_back(needle.key);
        answers.insert(answers.end(), needle.values.begin(), needle.values.end());
    }
    const bool plural = answers.size() > 1;
    Question question;
    Blanks blanks{.what = kinds.what, .keys = keys};
    if (brief) {
        append_form(question.ask, random.pick(training::kShortQuestions), blanks);
    } else {
        append_form(question.ask, random.pick(plural ? training::kNeedlesQuestions : training::kNeedleQuestions), blanks);
        const auto prefix = random.pick(plural ? training::kNeedlesPrefixes : training::kNeedlePrefixes);
        blanks.known = Blanks::Keys::kKnown;
        if (!prefix.empty()) { append_form(question.answer, prefix, blanks); }
    }
    append_answer(question.answer, answers);
    return question;
}

// Questions until they take `room` tokens or every key was asked for `rounds` times; some ask for several keys at once.
struct Asking {
    double brief = 0;     // share of short questions
    double together = 0;  // share of questions for several keys
    int rounds = 1;
    int room = 0;
};
std::vector<Question> needle_questions(DocumentBuilder & builder, std::vector<Needle> needles, const Kinds & kinds,
                                       const Asking & asking, Random & random) {
    std::vector<Question> questions;
    int room = asking.room;
    for (int round = 0; round < asking.rounds; ++round) {
        random.shuffle(needles);
        for (size_t i = 0; i < needles.size();) {
            const size_t most = random.chance(asking.together) ? static_cast<size_t>(random.between(2, 5)) : 1;
            const size_t n = std::min(most, needles.size() - i);
            questions.push_back(needle_ask(std::span(needles).subspan(i, n), kinds, random.chance(asking.brief), random));
            i += n;
            room -= builder.cost(questions.back().ask) + builder.cost(questions.back().answer) + 2;
            if (room < 0) { return questions; }
        }
    }
    return questions;
}

// The few needles of a document that is like a task: one; several of which one is asked for; one of several values; several
// that are all asked for in one question.
std::vector<int> task_sizes(Random & random, Asking & asking) {
    const double roll = random.uniform();
    if (roll < 0.1) { return {1}; }
    if (roll < 0.25) {
        asking.room = 0;
        return std::vector<int>(static_cast<size_t>(random.between(2, 5)), 1);
    }
    if (roll < 0.62) { return {random.between(2, 5)}; }
    asking.together = 1;
    return std::vector<int>(static_cast<size_t>(random.between(2, 5)), 1);
}

}  // namespace

Document needle_document(Random & random, int n_tokens, const CountTokens & count) {
    DocumentBuilder builder("needles", n_tokens, count);
    const bool small = n_tokens <= 128;
    const Kinds kinds = draw_kinds(random, n_tokens);
    const auto form = random.pick(training::kNeedleStatements);
    const bool mixed = random.chance(0.2);

    Layout layout;
    layout.chat = !small && random.chance(0.5);
    const double roll = random.uniform();
    layout.filler = roll < 0.28 && !small ? Filler::kNone : roll < 0.58 ? Filler::kNoise : Filler::kStory;
    const bool bare = layout.filler == Filler::kNone;
    Asking asking;
    asking.brief = n_tokens <= 64 ? 1.0 : small ? 0.7 : n_tokens <= 256 ? 0.35 : 0.15;
    asking.rounds = n_tokens > 256 ? 1 : 3;  // in short documents every key again in other words
    asking.room = n_tokens / 2;
    std::vector<int> sizes;
    if (!small && !bare && random.chance(0.5)) {  // few in much haystack, as the tasks have it
        sizes = task_sizes(random, asking);
    } else {
        const bool several = random.chance(small ? 0.2 : 0.4);
        asking.together = several ? 0 : small ? 0.05 : 0.35;
        // How many tokens one needle takes: nothing but needles fills the context with them.
        const std::vector<int> one = {1};
        const int size = builder.cost(needle_segments(form, kinds, draw_needles(random, kinds, one)[0], 0)) + 1;
        const int n_sentences = bare ? static_cast<int>((0.45 + 0.35 * random.uniform()) * n_tokens / size)
                                     : random.between(2, std::clamp(n_tokens * 2 / (5 * size), 2, 18));
        sizes = split_sentences(random, std::clamp(n_sentences, 2, 380), several);
    }
    const auto needles = draw_needles(random, kinds, sizes);

    if (!small || random.chance(0.1)) {
        if (random.chance(0.8)) {
            std::vector<Segment> preamble;
            append_form(preamble, random.pick(training::kNeedlePreambles), {.what = kinds.what});
            layout.preamble = preamble.front().text;
        }
    }
    for (const auto & [k, v] : sentence_order(needles, random)) {
        const auto one = mixed ? random.pick(training::kNeedleStatements) : form;
        layout.hidden.push_back(needle_segments(one, kinds, needles[k], v));
    }
    layout.questions = needle_questions(builder, needles, kinds, asking, random);
    int asked = 0;
    for (const auto & question : layout.questions) {
        asked += builder.cost(question.ask) + builder.cost(question.answer) + (layout.chat ? 9 : 0);
    }
    // The questions have their room and no more: the haystack fills the rest.
    layout.share = small ? 0.5 : std::max(0.5, 1.0 - static_cast<double>(asked) / n_tokens);
    if (!lay_out(builder, std::move(layout), random)) { return pairs_document(random, n_tokens, count); }
    return builder.take();
}

}  // namespace pith::corpus
