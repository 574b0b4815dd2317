// talk_documents.cpp - conversations in the chat template, and passages to repeat. See document_builder.h.
#include <algorithm>

#include "corpus/conversations.h"
#include "corpus/document_builder.h"
#include "corpus/training_wording.h"
#include "tasks/concat.h"
#include "tasks/worlds.h"

namespace pith::corpus {
namespace {

void append_exchange(std::vector<Segment> & out, const Exchange & exchange) {
    open_turn(out, "user");
    out.push_back({exchange.user, kPlainWeight});
    close_turn(out, kPlainWeight);
    open_turn(out, "assistant");
    out.push_back({exchange.assistant, kAnswerWeight});
    close_turn(out, kAnswerWeight);
}

// "Repeat …: passage" and the passage again, as long as fits `room`.
std::vector<Segment> repeat_exchange(DocumentBuilder & builder, int room, Random & random) {
    const auto request = random.pick(training::kCopyRequests);
    std::string passage;
    for (int used = builder.cost(request) + 14;;) {
        const auto world = make_world(random, 1);
        const std::string next =
            concat({" ", random.chance(0.5) ? filler_sentence(random) : random.pick(world.front().statements)});
        used += 2 * builder.cost(next);
        if (used > room) { break; }
        passage += next;
    }
    if (passage.empty()) { return {}; }
    std::vector<Segment> out;
    append_exchange(out, {concat({request, passage}), passage.substr(1), "", true});
    return out;
}

}  // namespace

Document talk_document(Random & random, int n_tokens, const CountTokens & count) {
    DocumentBuilder builder("talk", n_tokens, count);
    std::vector<Segment> head;
    if (n_tokens >= 128 && random.chance(0.4)) {
        open_turn(head, "system");
        head.push_back({std::string(random.pick(training::kSystemPrompts)), kPlainWeight});
        close_turn(head, kPlainWeight);
    }
    builder.add(std::move(head));
    if (n_tokens >= 128 && random.chance(0.2)) {
        auto repeated = repeat_exchange(builder, random.between(n_tokens / 3, builder.room()), random);
        if (!repeated.empty()) { builder.add(std::move(repeated)); }
    }
    // Conversations one after the other would mix two worlds: one, with as many turns as fit.
    const int n_facts = std::clamp(random.between(n_tokens / 64, n_tokens / 28), 1, 20);
    const int room_for_story = builder.room() / 2 - 12 * n_facts;
    const int n_story = n_tokens >= 256 && random.chance(0.5) ? random.between(0, std::max(0, room_for_story / 11)) : 0;
    for (const auto & exchange : make_conversation(random, n_facts, 2 + n_tokens / 20, n_story, false)) {
        std::vector<Segment> segments;
        append_exchange(segments, exchange);
        if (!builder.add(std::move(segments))) { break; }
    }
    if (builder.empty()) { return pairs_document(random, n_tokens, count); }
    return builder.take();
}

}  // namespace pith::corpus
