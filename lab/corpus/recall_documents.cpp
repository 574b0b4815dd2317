// recall_documents.cpp - what forms induction: random pairs to look up, passages copied later. See document_builder.h.
#include <algorithm>

#include "corpus/document_builder.h"
#include "tasks/concat.h"
#include "tasks/identifiers.h"
#include "tasks/worlds.h"

namespace pith::corpus {
namespace {

// A kind that one of `shares` (summing to 1) stands for.
struct KindShare {
    Kind kind;
    double share;
};
template <size_t N>
Kind draw_kind(Random & random, const KindShare (&shares)[N]) {
    double roll = random.uniform();
    for (const auto & [kind, share] : shares) {
        if (roll < share) { return kind; }
        roll -= share;
    }
    return shares[0].kind;
}
constexpr KindShare kShortKeys[] = {{Kind::kWord, 0.6}, {Kind::kCompound, 0.25}, {Kind::kCoined, 0.15}};
constexpr KindShare kLongKeys[] = {{Kind::kWord, 0.3}, {Kind::kCompound, 0.4},  {Kind::kCoined, 0.1},
                                   {Kind::kHex, 0.08}, {Kind::kCapitals, 0.06}, {Kind::kUuid, 0.06}};
constexpr KindShare kShortValues[] = {
    {Kind::kWord, 0.3}, {Kind::kTwoDigits, 0.25}, {Kind::kFourDigits, 0.2}, {Kind::kSevenDigits, 0.15}, {Kind::kHex, 0.1}};
constexpr KindShare kLongValues[] = {{Kind::kWord, 0.15},       {Kind::kTwoDigits, 0.1}, {Kind::kFourDigits, 0.15},
                                     {Kind::kSevenDigits, 0.2}, {Kind::kHex, 0.15},      {Kind::kUuid, 0.13},
                                     {Kind::kCapitals, 0.06},   {Kind::kLetters, 0.06}};
constexpr KindShare kPassageItems[] = {{Kind::kWord, 0.6},     {Kind::kTwoDigits, 0.2}, {Kind::kCoined, 0.06},
                                       {Kind::kLetters, 0.04}, {Kind::kCapitals, 0.04}, {Kind::kHex, 0.06}};

std::string random_passage(Random & random, int n_items) {
    std::string out;
    if (random.chance(0.2)) {  // one long identifier after the other
        for (int i = 0; i < std::max(1, n_items / 16); ++i) { out += concat({" ", draw_uuid(random)}); }
        return out;
    }
    for (int i = 0; i < n_items; ++i) { out += concat({" ", draw(random, draw_kind(random, kPassageItems))}); }
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
    const bool small = n_tokens <= 64;
    const Kind key_kind = small ? draw_kind(random, kShortKeys) : draw_kind(random, kLongKeys);
    const Kind kind = n_tokens <= 96 ? draw_kind(random, kShortValues) : draw_kind(random, kLongValues);
    const std::string mark = random.chance(0.5) ? ":" : " is";
    const std::string asked = random.chance(0.5) ? mark : "?";
    const int unit = 2 + builder.cost(concat({" ", draw(random, key_kind)})) + builder.cost(concat({" ", draw(random, kind)}));
    const int most = kind == Kind::kTwoDigits ? 30 : 40;
    const int n_pairs = std::clamp(random.between(n_tokens / (4 * unit), n_tokens * 2 / (5 * unit)), 2, most);
    const auto keys = draw_different(random, key_kind, n_pairs);
    const auto values = draw_different(random, kind, n_pairs);
    // The first word of a key is free, what follows the context tells.
    const auto key_end = [](const std::string & key) { return std::min(key.find('-'), key.size()); };

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
            const size_t end = key_end(keys[k]);
            std::vector<Segment> pair = {{concat({" ", keys[k].substr(0, end)}), kRandomWeight}};
            if (end < keys[k].size()) { pair.push_back({keys[k].substr(end), kAnswerWeight}); }
            pair.push_back({asked, kPlainWeight});
            pair.push_back({concat({" ", values[k]}), kAnswerWeight});
            pair.push_back({".", kAnswerWeight});
            const bool added = builder.add(std::move(pair));
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
        const int size = random.between(4, std::clamp(room / 3, 5, 260));
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
        const size_t first = std::min(passage.find_first_of(" -", 1), passage.size());
        std::vector<Segment> copy = {{passage.substr(0, first), kRandomWeight}};
        if (first < passage.size()) { copy.push_back({passage.substr(first), kAnswerWeight}); }
        builder.add(std::move(copy));
    }
    return builder.take();
}

}  // namespace pith::corpus
