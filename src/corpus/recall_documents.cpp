// recall_documents.cpp - what forms induction: random pairs to look up, passages copied later. See document_builder.h.
#include <algorithm>

#include "corpus/concat.h"
#include "corpus/document_builder.h"
#include "corpus/wording.h"
#include "corpus/words.h"
#include "corpus/worlds.h"

namespace pith::corpus {
namespace {

enum class ValueKind { kWord, kPairOfDigits, kCode, kNumber };

std::string draw_value(Random & random, ValueKind kind) {
    switch (kind) {
        case ValueKind::kWord:
            return std::string(random.pick(words::single_words()));
        case ValueKind::kPairOfDigits:
            return std::to_string(random.between(10, 99));
        case ValueKind::kCode:
            return std::to_string(random.between(1000, 9999));
        default:
            return std::to_string(random.between(1000000, 9999999));
    }
}

std::vector<std::string> draw_pair_keys(Random & random, int n, bool compound) {
    if (compound) { return draw_needle_keys(random, n); }
    const auto & pool = words::single_words();
    std::vector<std::string> keys;
    for (const int i : random.draw(n, static_cast<int>(pool.size()))) { keys.emplace_back(pool[static_cast<size_t>(i)]); }
    return keys;
}

std::string random_passage(Random & random, int n_words) {
    std::string out;
    for (int i = 0; i < n_words; ++i) {
        out += concat({" ", draw_value(random, random.chance(0.3) ? ValueKind::kPairOfDigits : ValueKind::kWord)});
    }
    return out;
}

std::string sentence_passage(Random & random, int n_sentences) {
    std::string out;
    for (int i = 0; i < n_sentences; ++i) {
        const auto world = make_world(random, 1);
        out += concat({" ", random.chance(0.5) ? filler_sentence(random) : random.pick(world.front().statements)});
    }
    return out;
}

}  // namespace

// " lamp: 43. door: 17. …" and then " door: 17. lamp: 43. …" in random order, with filler between them in long documents.
Document pairs_document(Random & random, int n_tokens, const CountTokens & count) {
    DocumentBuilder builder("pairs", n_tokens, count);
    const bool compound = random.chance(n_tokens > 64 ? 0.5 : 0.25);
    const double roll = random.uniform();
    const ValueKind kind = roll < 0.3    ? ValueKind::kWord
                           : roll < 0.55 ? ValueKind::kPairOfDigits
                           : roll < 0.75 ? ValueKind::kCode
                                         : ValueKind::kNumber;
    const std::string mark = random.chance(0.5) ? ":" : " is";
    const std::string asked = random.chance(0.5) ? mark : "?";
    const int unit = 4 + (compound ? 2 : 0) + (kind == ValueKind::kNumber ? 3 : kind == ValueKind::kCode ? 1 : 0);
    const int n_pairs = std::clamp(random.between(n_tokens / (4 * unit), n_tokens * 2 / (5 * unit)), 2, 40);
    const auto keys = draw_pair_keys(random, n_pairs, compound);
    std::vector<std::string> values;
    for (int i = 0; i < n_pairs; ++i) { values.push_back(draw_value(random, kind)); }

    const bool spread = n_tokens > 128 && random.chance(0.7);
    for (size_t i = 0; i < keys.size(); ++i) {
        builder.add({{concat({" ", keys[i]}), kRandomWeight},
                     {mark, kPlainWeight},
                     {concat({" ", values[i]}), kRandomWeight},
                     {".", kPlainWeight}});
        if (spread && builder.room() > n_tokens / 2) { builder.add(concat({" ", filler_sentence(random)}), kPlainWeight); }
    }
    // Rounds over all keys, each in a new order, until the document is full.
    for (bool full = false; !full;) {
        full = true;
        for (const int i : random.draw(n_pairs, n_pairs)) {
            const auto k = static_cast<size_t>(i);
            const bool added = builder.add({{concat({" ", keys[k]}), compound ? kPlainWeight : kRandomWeight},
                                            {asked, kPlainWeight},
                                            {concat({" ", values[k]}), kAnswerWeight},
                                            {".", kAnswerWeight}});
            full = full && !added;
        }
    }
    return builder.take();
}

// A passage, something else, the passage again, until full.
Document copy_document(Random & random, int n_tokens, const CountTokens & count) {
    DocumentBuilder builder("copy", n_tokens, count);
    while (builder.room() > 12) {
        const int room = builder.room();
        const int size = random.between(4, std::clamp(room / 3, 5, 120));
        const bool sentences = size > 16 && random.chance(0.6);
        const std::string passage = sentences ? sentence_passage(random, size / 9 + 1) : random_passage(random, size);
        if (2 * builder.cost(passage) > room) {
            if (room < 24) { break; }
            continue;
        }
        builder.add(passage, sentences ? kPlainWeight : kRandomWeight);
        const int gap = random.below(3) * builder.room() / 8;
        for (int used = 0; used < gap;) {
            const std::string filler = concat({" ", filler_sentence(random)});
            used += builder.cost(filler);
            if (builder.room() - builder.cost(filler) < builder.cost(passage)) { break; }
            builder.add(filler, kPlainWeight);
        }
        // The first word of a copy cannot be foreseen.
        const size_t first = passage.find(' ', 1);
        builder.add({{passage.substr(0, first), kRandomWeight}, {passage.substr(first), kAnswerWeight}});
    }
    return builder.take();
}

}  // namespace pith::corpus
