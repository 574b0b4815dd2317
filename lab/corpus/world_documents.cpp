// world_documents.cpp - facts of small worlds among sentences that do not matter, asked for; and stories. See
// document_builder.h.
#include <algorithm>

#include "corpus/document_builder.h"
#include "tasks/concat.h"
#include "tasks/wording.h"
#include "tasks/worlds.h"

namespace pith::corpus {
namespace {

Question fact_ask(std::string_view question, const std::string & answer) {
    Question out;
    out.ask.push_back({fact_question(question), kPlainWeight});
    out.answer.push_back({std::string(kFactPrefix), kPlainWeight});
    append_answer(out.answer, std::span(&answer, 1));
    return out;
}

}  // namespace

// Facts said once or several times, then questions; some worlds are linked, and a thing's owner must be found first.
Document world_document(Random & random, int n_tokens, const CountTokens & count) {
    DocumentBuilder builder("world", n_tokens, count);
    const bool linked = random.chance(0.35);
    const int n = std::clamp(random.between(n_tokens / 40, n_tokens / 24), 2, 32);
    const auto facts = linked ? make_linked_world(random, std::clamp(n / 2, 1, 16)) : make_world(random, n);
    std::vector<std::vector<Segment>> hidden;
    std::vector<std::vector<Segment>> again;
    std::vector<size_t> said;
    for (const auto & fact : facts) {
        const auto statement = static_cast<size_t>(random.below(3));
        said.push_back(statement);
        hidden.push_back(statement_segments(fact.statements[statement], fact.answer, kPlainWeight, kPlainWeight));
        if (random.chance(0.2)) {
            again.push_back(statement_segments(fact.statements[statement], fact.answer, kPlainWeight, kAnswerWeight));
        }
    }
    random.shuffle(hidden);
    random.shuffle(again);
    Layout layout;
    layout.filler = Filler::kStory;  // a name at the start of a line would be other pieces than after a space
    layout.chat = n_tokens > 64 && random.chance(0.4);
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
    const int n_facts = static_cast<int>(facts.size());
    for (int round = 0; round < 2; ++round) {
        for (const int i : random.draw(n_facts, n_facts)) {
            const auto f = static_cast<size_t>(i);
            const bool by_owner = linked && f % 2 == 1 && random.chance(0.8);
            const size_t form = draw_question(random, said[f]);
            layout.questions.push_back(
                fact_ask(by_owner ? linked_question(facts[f - 1], facts[f], form) : facts[f].questions[form], facts[f].answer));
        }
    }
    if (!lay_out(builder, std::move(layout), random)) { return pairs_document(random, n_tokens, count); }
    return builder.take();
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
