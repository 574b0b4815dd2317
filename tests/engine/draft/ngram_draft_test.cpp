// ngram_draft_test.cpp - what n-grams propose, against a search of the whole text, and when they stop.
#include "engine/draft/ngram_draft.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace pith::ngram_draft_test {
namespace {

using Tokens = std::vector<int32_t>;

constexpr PassCost kFree{0.0};

Tokens proposed(NgramDraft & draft, int most, const PassCost & cost = kFree, int n_others = 0) {
    const auto tokens = draft.propose(most, n_others, cost);
    return {tokens.begin(), tokens.end()};
}

Tokens proposed(const Tokens & text, int most) {
    NgramDraft draft;
    draft.read(text);
    return proposed(draft, most);
}

TEST(NgramDraft, ProposesWhatFollowedTheLastTokens) {
    EXPECT_EQ(proposed({1, 2, 3, 4, 5, 6, 1, 2, 3}, 3), (Tokens{4, 5})) << "as many as a power of two";
    EXPECT_EQ(proposed({1, 2, 3, 4, 5, 6, 1, 2, 3}, 0), Tokens());
}

TEST(NgramDraft, PrefersTheLongestMatchAndOfEqualsTheNewest) {
    EXPECT_EQ(proposed({9, 1, 2, 3, 40, 0, 8, 1, 2, 3, 50, 0, 9, 1, 2, 3}, 1), (Tokens{40}));
    EXPECT_EQ(proposed({7, 1, 2, 3, 40, 0, 8, 1, 2, 3, 50, 0, 9, 1, 2, 3}, 1), (Tokens{50}));
}

TEST(NgramDraft, BehindTheTextsEndTheDraftGoesOn) {
    EXPECT_EQ(proposed({1, 2, 1, 2, 1, 2}, 5), (Tokens{1, 2, 1, 2}));
}

TEST(NgramDraft, ProposesNothingWhereNothingRepeats) {
    EXPECT_EQ(proposed({1, 2, 3, 4, 5, 6, 7, 1, 2}, 4), Tokens());
    EXPECT_EQ(proposed({1, 2}, 4), Tokens());
    EXPECT_EQ(proposed({}, 4), Tokens());
}

// The place that the search of a whole text finds among so few that all are candidates.
TEST(NgramDraft, EqualsASearchOfTheWholeTextWhileItGrows) {
    std::mt19937 random(3);
    NgramDraft draft;
    Tokens text;
    int n_found = 0;
    for (int i = 0; i < 3000; ++i) {
        text.push_back(static_cast<int32_t>(random() % 40));
        draft.follow(text.back());
        int longest = NgramDraft::kNgram - 1;
        Tokens expected;
        for (size_t end = text.size() - 1; end-- > 0;) {
            int length = 0;
            while (length < NgramDraft::kLongestMatch && static_cast<size_t>(length) <= end &&
                   text[end - static_cast<size_t>(length)] == text[text.size() - 1 - static_cast<size_t>(length)]) {
                ++length;
            }
            if (length > longest) {
                longest = length;
                expected = {text[end + 1]};
            }
        }
        EXPECT_EQ(proposed(draft, 1), expected) << i;
        n_found += expected.empty() ? 0 : 1;
    }
    EXPECT_GT(n_found, 50);
}

// A text that repeats all: drafts become as long as they may. One whose matches never go on alike: they end, also where rows
// cost little, and begin again once what they foretell comes true.
TEST(NgramDraft, IsAsLongAsItWins) {
    const PassCost cost{0.2};
    NgramDraft draft;
    Tokens text;
    for (int i = 0; i < 200; ++i) { text.push_back(1000 + i); }
    draft.read(text);
    for (int i = 0; i < 100; ++i) { draft.follow(1000 + i); }
    EXPECT_EQ(proposed(draft, 8, cost).size(), 8U);

    NgramDraft other;
    std::mt19937 random(5);
    const auto wander = [&](int n) {
        for (int i = 0; i < n; ++i) {
            for (const int32_t token : {1, 2, 3}) { other.follow(token); }
            other.follow(10 + static_cast<int32_t>(random() % 1000));
        }
        for (const int32_t token : {1, 2, 3}) { other.follow(token); }
    };
    wander(50);
    EXPECT_EQ(proposed(other, 8, cost), Tokens());
    for (int i = 0; i < 60; ++i) { other.follow(Tokens{5, 1, 2, 3}[static_cast<size_t>(i % 4)]); }
    EXPECT_FALSE(proposed(other, 8, cost).empty());
}

// With others in the pass, a row that may be for nothing costs them time, too.
TEST(NgramDraft, IsShorterInAPassOfMany) {
    NgramDraft draft;
    draft.read(Tokens{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 0, 1, 2, 3, 4, 5});
    const PassCost cost{0.2};
    const size_t alone = proposed(draft, 8, cost).size();
    const size_t among = proposed(draft, 8, cost, 15).size();
    EXPECT_GT(alone, 0U);
    EXPECT_LT(among, alone);
}

TEST(NgramDraft, BeginsAnew) {
    NgramDraft draft;
    draft.read(Tokens{1, 2, 3, 4, 1, 2, 3});
    draft.restart();
    draft.read(Tokens{1, 2, 3});
    EXPECT_EQ(proposed(draft, 4), Tokens());
}

}  // namespace
}  // namespace pith::ngram_draft_test
