// counting_documents.cpp - lists whose most common words are asked for. See document_builder.h.
#include <algorithm>
#include <set>

#include "corpus/document_builder.h"
#include "corpus/training_wording.h"
#include "tasks/concat.h"
#include "tasks/identifiers.h"
#include "tasks/word_lists.h"
#include "tasks/wording.h"

namespace pith::corpus {
namespace {

// A list with its question and answer; `lead`: an example in front of it, in the same turn of a chat.
struct Part {
    std::string_view preamble;
    std::string list;
    Question question;
};
std::vector<Segment> joined(const Part & part, std::span<const Segment> lead, bool chat) {
    std::vector<Segment> out;
    if (chat) { open_turn(out, "user"); }
    out.insert(out.end(), lead.begin(), lead.end());
    out.push_back({std::string(part.preamble), kPlainWeight});
    out.push_back({part.list, kRandomWeight});
    out.insert(out.end(), part.question.ask.begin(), part.question.ask.end());
    if (chat) {
        close_turn(out, kPlainWeight);
        open_turn(out, "assistant");
    }
    out.insert(out.end(), part.question.answer.begin(), part.question.answer.end());
    if (chat) {
        out.back().end = false;
        close_turn(out, kAnswerWeight);
    }
    return out;
}

// "1. w 2. w …": a few words are common, the others rare. The answer's order is free.
std::vector<Segment> common_list(DocumentBuilder & builder, int room, bool chat, std::span<const Segment> lead,
                                 Random & random) {
    const int whole = room;
    room -= builder.cost(std::vector<Segment>(lead.begin(), lead.end()));
    const int n_common = room >= 400 ? 10 : std::clamp(room / 48, 1, 8);
    // The common words take at most a third of the room; an entry is about five tokens.
    const int most = std::max(2, room / (14 * n_common));
    const int rare_times = most < 9 || random.chance(0.7) ? 1 : random.between(2, 3);
    const int times = std::min(most, rare_times * random.between(3, 6) + (rare_times == 1 ? random.between(0, 2) : 0));
    const auto & pool = common_words();
    const auto words = random.draw(std::min(static_cast<int>(pool.size()), room), static_cast<int>(pool.size()));
    const auto word = [&](int i) { return pool[static_cast<size_t>(words[static_cast<size_t>(i)])]; };
    std::vector<std::string_view> common;
    for (int i = 0; i < n_common; ++i) { common.push_back(word(i)); }
    Question question;
    const Blanks blanks{.n = n_common};
    append_form(question.ask, random.pick(training::kCommonQuestions), blanks);
    append_form(question.answer, random.pick(training::kCommonPrefixes), blanks);
    question.answer.push_back({concat({" ", numbered_list(common)}), kAnswerWeight, true});
    const auto preamble = random.pick(training::kCommonPreambles);
    const int frame = builder.cost(preamble) + builder.cost(question.ask) + builder.cost(question.answer) + (chat ? 10 : 2);
    // As many others as fit: the list is made too long, then shortened.
    for (int n_rare = (room - frame) / (5 * rare_times); n_rare >= 2; n_rare -= std::max(1, n_rare / 20)) {
        if (n_common + n_rare > static_cast<int>(words.size())) { continue; }
        std::vector<std::string_view> list;
        for (int i = 0; i < n_common + n_rare; ++i) {
            list.insert(list.end(), static_cast<size_t>(i < n_common ? times : rare_times), word(i));
        }
        random.shuffle(list);
        auto all = joined({preamble, numbered_list(list), question}, lead, chat);
        if (builder.cost(all) <= whole) { return all; }
    }
    return {};
}

// A coded text: the first rank is dots, the next are asked for in the order of their ranks.
std::vector<Segment> frequent_words(DocumentBuilder & builder, int room, bool chat, std::span<const Segment> lead,
                                    Random & random) {
    const int whole = room;
    room -= builder.cost(std::vector<Segment>(lead.begin(), lead.end()));
    constexpr double kZeta = 1.6449340668482264;  // sum of 1 / k²
    const int n_words = std::max(5, room / 50);
    const int n_letters = room >= 256 ? 6 : 3;
    std::set<std::string> drawn;
    while (static_cast<int>(drawn.size()) < n_words) { drawn.insert(draw_letters(random, 'a', n_letters)); }
    std::vector<std::string> words(drawn.begin(), drawn.end());
    random.shuffle(words);
    words[0] = random.chance(0.8) ? "..." : words[0];
    Question question;
    append_form(question.ask, random.pick(training::kFrequentQuestions), {});
    append_form(question.answer, random.pick(training::kFrequentPrefixes), {});
    std::string answer;
    for (size_t i = words[0] == "..." ? 1 : 0, n = i + 3; i < n; ++i) { answer += concat({" ", words[i]}); }
    question.answer.push_back({std::move(answer), kAnswerWeight, true});
    const auto preamble = random.pick(training::kFrequentPreambles);
    for (double total = room; total >= 20; total *= 0.93) {
        std::vector<std::string_view> list;
        for (size_t i = 0; i < words.size(); ++i) {
            const auto rank = static_cast<double>(i + 1);
            list.insert(list.end(), static_cast<size_t>(total / (rank * rank) / kZeta), words[i]);
        }
        if (std::count(list.begin(), list.end(), std::string_view(words[3])) <=
            std::count(list.begin(), list.end(), std::string_view(words[4]))) {
            break;
        }
        random.shuffle(list);
        std::string text;
        for (const auto word : list) { text += concat({" ", word}); }
        auto all = joined({preamble, std::move(text), question}, lead, chat);
        if (builder.cost(all) <= whole) { return all; }
    }
    return {};
}

}  // namespace

// Lists and coded texts, one after the other, until the document is full; in a chat each in turns of its own, or the first as
// an example in front of the second, as RULER has it.
Document counts_document(Random & random, int n_tokens, const CountTokens & count) {
    DocumentBuilder builder("counts", n_tokens, count);
    const bool chat = random.chance(0.5);
    std::vector<Segment> lead;
    const auto next = [&](DocumentBuilder & to, int room, bool as_chat, bool coded) {
        auto segments = coded ? frequent_words(to, room, as_chat, lead, random) : common_list(to, room, as_chat, lead, random);
        lead.clear();
        return !segments.empty() && to.add(std::move(segments));
    };
    if (chat && n_tokens >= 512 && random.chance(0.5)) {
        DocumentBuilder example("counts", n_tokens * random.between(15, 45) / 100, count);
        if (next(example, example.room(), false, false)) { lead = as_example(example.take()); }
    }
    while (builder.room() > 60) {
        const bool whole = n_tokens <= 256 || !lead.empty() || random.chance(0.5);
        const int room = whole ? builder.room() : std::min(random.between(128, builder.room() + 128), builder.room());
        if (!chat && !builder.empty()) { lead = {{"\n\n", kPlainWeight}}; }
        if (!next(builder, room, chat, lead.size() < 2 && room >= 220 && random.chance(0.5))) { break; }
    }
    if (builder.empty()) { return pairs_document(random, n_tokens, count); }
    return builder.take();
}

}  // namespace pith::corpus
