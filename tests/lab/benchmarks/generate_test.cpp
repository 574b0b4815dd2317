// generate_test.cpp - fitting haystack to a limit, and essays as words and sentences.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "benchmarks/generate/essay.h"
#include "benchmarks/generate/fit.h"
#include "tasks/word_lists.h"

namespace pith::benchmarks::generate_test {
namespace {

TEST(MostThatFit, FindsTheLargestNumberOfUnitsForAnyPrice) {
    for (const int price : {1, 7, 25, 90}) {
        for (const int limit : {250, 1000, 4096, 32768}) {
            int n_calls = 0;
            const auto tokens = [&](int n) {
                ++n_calls;
                return 100 + price * n + n / 3;
            };
            const Fit found = most_that_fit(1, limit, limit, tokens);
            EXPECT_LE(n_calls, 6) << price << " " << limit;
            ASSERT_EQ(found.n_tokens, tokens(found.n_units));
            EXPECT_LE(found.n_tokens, limit);
            if (found.n_tokens < limit - limit / 256) { EXPECT_GT(tokens(found.n_units + 1), limit); }
        }
    }
}

TEST(MostThatFit, HoldsTheLimitWhereThePriceJumps) {
    for (const int jump : {10, 500, 900, 995}) {
        int n_calls = 0;
        const auto tokens = [&](int n) {
            ++n_calls;
            return n < jump ? n : n + 5000;
        };
        const Fit found = most_that_fit(1, 100000, 1000, tokens);
        EXPECT_LE(found.n_tokens, 1000);
        EXPECT_GE(found.n_units, std::min(jump - 1, 1000 - 1000 / 256));
        EXPECT_LE(n_calls, 10 + 17);
    }
}

TEST(MostThatFit, IsSureWhereEveryUnitCostsLessThanTheOneBefore) {
    int n_calls = 0;
    const auto tokens = [&](int n) {
        ++n_calls;
        return static_cast<int>(100 * std::log2(n));
    };
    const Fit found = most_that_fit(1, 1 << 20, 1500, tokens);
    EXPECT_LE(found.n_tokens, 1500);
    EXPECT_GE(found.n_tokens, 1500 - 1500 / 256);
    EXPECT_LE(n_calls, 10 + 20);
}

TEST(MostThatFit, SaysWhatTheLeastNeedsWhenNothingFits) {
    const Fit found = most_that_fit(3, 10, 50, [](int n) { return 60 + n; });
    EXPECT_EQ(found.n_units, -1);
    EXPECT_EQ(found.n_tokens, 63);
}

TEST(MostThatFit, TakesTheWholeRangeWhenAllOfItFits) {
    EXPECT_EQ(most_that_fit(1, 10, 1000, [](int n) { return n; }).n_units, 10);
}

Essay essay_of(std::string_view text, int n_words, Spacing spacing) {
    auto essay = Essay::make(text, 1, 0, n_words, spacing);
    EXPECT_TRUE(essay.ok()) << essay.status().message();
    return std::move(*essay);
}

TEST(Essay, KeepsOrCollapsesWhatStandsBetweenWords) {
    EXPECT_EQ(essay_of(" One  two.\n\n Three", 3, Spacing::kCollapsed).words(0, 3), "One two. Three");
    EXPECT_EQ(essay_of(" One  two.\n\n Three", 3, Spacing::kKept).words(0, 3), "One  two.\n\n Three");
    EXPECT_EQ(essay_of("One two.", 3, Spacing::kCollapsed).words(1, 1), "");
}

TEST(Essay, StartsAgainWhenItIsTooShort) {
    EXPECT_EQ(essay_of("One two.", 5, Spacing::kCollapsed).words(0, 5), "One two. One two. One");
    EXPECT_EQ(essay_of("One two.\n", 3, Spacing::kKept).words(0, 3), "One two.\nOne");
}

TEST(Essay, EndsSentencesAtMarksButNotAtAbbreviations) {
    const Essay essay =
        essay_of("Dr. Grey saw J. Smith, e.g. here. \"Did he?\" No! It cost 3.5 pounds, etc. in all (so far.) End", 20,
                 Spacing::kCollapsed);
    std::string ends;
    for (int i = 0; i < 20; ++i) {
        if (essay.ends_sentence(i)) { ends += std::string(essay.word(i)) + "|"; }
    }
    EXPECT_EQ(ends, "here.|he?\"|No!|far.)|");
}

TEST(Essay, TellsOtherStoriesForOtherSeedsAndNumbers) {
    std::set<std::string> stories;
    for (const uint64_t seed : {1U, 2U}) {
        for (const uint64_t story : {0U, 1U}) {
            const auto essay = Essay::make("", seed, story, 500, Spacing::kCollapsed);
            ASSERT_TRUE(essay.ok());
            EXPECT_EQ(essay->n_words(), 500);
            stories.emplace(essay->words(0, 500));
        }
    }
    EXPECT_EQ(stories.size(), 4U);
}

TEST(WordLists, HoldHundredsOfPlainWordsEachOnce) {
    EXPECT_GT(corpus::adjectives().size(), 400U);
    EXPECT_GT(corpus::nouns().size(), 900U);
    EXPECT_GT(corpus::verbs().size(), 400U);
    const auto all = corpus::common_words();
    EXPECT_EQ(all.size(), corpus::adjectives().size() + corpus::nouns().size() + corpus::verbs().size());
    EXPECT_EQ(std::set<std::string_view>(all.begin(), all.end()).size(), all.size());
    for (const auto word : all) {
        EXPECT_EQ(word.find_first_not_of("abcdefghijklmnopqrstuvwxyz"), std::string_view::npos) << word;
    }
}

}  // namespace
}  // namespace pith::benchmarks::generate_test
