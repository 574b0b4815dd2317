// inspect_average_test.cpp - means and deviations over texts are those of two plain passes over the texts' own numbers.
#include "inspect/inspect_average.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "engine/tiny_model.h"

namespace pith::inspect_average_test {
namespace {

struct Expected {
    double mean = 0;
    double deviation = 0;
};

// The formulas, one pass for the mean and one for the squares.
Expected two_passes(const std::vector<double> & values) {
    Expected out;
    for (const double value : values) { out.mean += value / static_cast<double>(values.size()); }
    double squares = 0;
    for (const double value : values) { squares += (value - out.mean) * (value - out.mean); }
    out.deviation = values.size() > 1 ? std::sqrt(squares / static_cast<double>(values.size() - 1)) : 0;
    return out;
}

class InspectAverageOfTexts : public ::testing::Test {
protected:
    static void SetUpTestSuite() {
        const auto model = testing::tiny_model(testing::tiny_spec());
        ASSERT_TRUE(model.ok()) << model.status().message();
        InspectOptions options;
        options.policies = {"adakv:window=8", "random", "snapkv:window=30"};
        options.budgets = {Budget(BudgetKind::kPercent, 20), 40};
        options.n_threads = 1;
        InspectAverager averager;
        unsigned seed = 1;
        for (const int n : {90, 200, 150, 160}) {
            auto one = inspect(*model, testing::random_tokens(n, model->info().n_vocab, seed++), options);
            ASSERT_TRUE(one.ok()) << one.status().message();
            averager.add(*one);
            texts_.push_back(std::move(*one));
        }
        average_ = averager.result();
    }
    static void TearDownTestSuite() { texts_.clear(); }

    // What `get` finds in the texts, against the same place of the average.
    static void expect_average(
        const std::function<const double *(const Inspection &)> & of_average,
        const std::function<double(const Inspection &)> & of_text, const std::string & what,
        const std::function<bool(const Inspection &)> & counts = [](const Inspection &) { return true; }) {
        std::vector<double> values;
        for (const Inspection & text : texts_) {
            if (counts(text)) { values.push_back(of_text(text)); }
        }
        ASSERT_FALSE(values.empty()) << what;
        const Expected expected = two_passes(values);
        const double scale = 1 + std::abs(expected.mean);
        EXPECT_NEAR(*of_average(average_.mean), expected.mean, 1e-9 * scale) << what;
        EXPECT_NEAR(*of_average(average_.deviation), expected.deviation, 1e-9 * scale) << what;
    }

    static inline std::vector<Inspection> texts_;
    static inline InspectAverage average_;
};

TEST_F(InspectAverageOfTexts, TheFullCachesNumbersAreThoseOfTheTexts) {
    EXPECT_EQ(average_.n_texts, 4);
    EXPECT_NEAR(average_.n_tokens, 150, 1e-12);
    EXPECT_NEAR(average_.n_tokens_deviation, two_passes({90, 200, 150, 160}).deviation, 1e-9);
    expect_average([](const Inspection & a) { return &a.perplexity; }, [](const Inspection & t) { return t.perplexity; },
                   "perplexity");
    for (size_t g = 0; g < texts_[0].heads.size(); ++g) {
        for (double HeadSummary::*measure :
             {&HeadSummary::entropy, &HeadSummary::strongest, &HeadSummary::sinks, &HeadSummary::recent}) {
            expect_average([&](const Inspection & a) { return &(a.heads[g].*measure); },
                           [&](const Inspection & t) { return t.heads[g].*measure; }, "head " + std::to_string(g));
        }
    }
    for (size_t l = 0; l < texts_[0].layers.size(); ++l) {
        for (double LayerSummary::*measure :
             {&LayerSummary::attention_mean, &LayerSummary::attention_max, &LayerSummary::output_mean,
              &LayerSummary::output_max, &LayerSummary::attention_output_rank, &LayerSummary::within,
              &LayerSummary::temporal}) {
            expect_average([&](const Inspection & a) { return &(a.layers[l].*measure); },
                           [&](const Inspection & t) { return t.layers[l].*measure; }, "layer " + std::to_string(l));
        }
        for (size_t h = 0; h < 2; ++h) {
            expect_average([&](const Inspection & a) { return &a.layers[l].head_distance[h]; },
                           [&](const Inspection & t) { return t.layers[l].head_distance[h]; }, "HD");
        }
    }
    ASSERT_EQ(average_.mean.distance.size(), 144U);
    for (size_t i = 0; i < 144; ++i) {
        expect_average([&](const Inspection & a) { return &a.distance[i]; },
                       [&](const Inspection & t) { return t.distance[i]; }, "D");
    }
}

// 20 % of 90 tokens are 18: less than the window of 30 that one policy protects, so that text is not in its mean.
TEST_F(InspectAverageOfTexts, CasesAreAveragedOverTheTextsThatHoldThem) {
    ASSERT_EQ(average_.mean.cases.size(), 6U);
    bool one_was_refused = false;
    for (size_t c = 0; c < 6; ++c) {
        const auto held = [c](const Inspection & text) { return text.cases[c].refused.empty(); };
        const auto n = std::ranges::count_if(texts_, held);
        EXPECT_EQ(average_.n_of_case[c], n);
        if (n == 0) {
            EXPECT_NE(average_.mean.cases[c].refused, "");
            continue;
        }
        one_was_refused = one_was_refused || n < 4;
        const std::string what = average_.mean.cases[c].policy + " " + average_.mean.cases[c].budget;
        EXPECT_EQ(average_.mean.cases[c].refused, "") << what;
        EXPECT_TRUE(average_.mean.cases[c].kept.empty());
        for (size_t g = 0; g < 12; ++g) {
            for (double HeadFidelity::*measure : {&HeadFidelity::mass, &HeadFidelity::sigma, &HeadFidelity::perturbation,
                                                  &HeadFidelity::relative_perturbation, &HeadFidelity::output_error}) {
                expect_average([&](const Inspection & a) { return &(a.cases[c].heads[g].*measure); },
                               [&](const Inspection & t) { return t.cases[c].heads[g].*measure; }, what, held);
            }
        }
        for (size_t l = 0; l < 3; ++l) {
            expect_average([&](const Inspection & a) { return &a.cases[c].layers[l].cosine; },
                           [&](const Inspection & t) { return t.cases[c].layers[l].cosine; }, what, held);
            expect_average([&](const Inspection & a) { return &a.cases[c].layers[l].hidden_error; },
                           [&](const Inspection & t) { return t.cases[c].layers[l].hidden_error; }, what, held);
        }
        for (size_t lane = 0; lane < 6; ++lane) {
            expect_average([&](const Inspection & a) { return &a.cases[c].kept_mean[lane]; },
                           [&](const Inspection & t) {
                               return static_cast<double>(t.cases[c].kept[lane / 2].length(static_cast<int>(lane % 2)));
                           },
                           what, held);
        }
    }
    EXPECT_TRUE(one_was_refused) << "no case was refused in one text and held in another";
}

TEST_F(InspectAverageOfTexts, PairsAreFoundByTheirNames) {
    ASSERT_EQ(average_.mean.pairs.size(), 6U);
    for (size_t p = 0; p < average_.mean.pairs.size(); ++p) {
        const InspectPair & pair = average_.mean.pairs[p];
        const auto find = [&pair](const Inspection & text) {
            return std::ranges::find_if(text.pairs, [&](const InspectPair & other) {
                return other.first == pair.first && other.second == pair.second && other.budget == pair.budget;
            });
        };
        const auto counts = [&](const Inspection & text) { return find(text) != text.pairs.end(); };
        EXPECT_EQ(average_.n_of_pair[p], std::ranges::count_if(texts_, counts));
        for (size_t l = 0; l < 3; ++l) {
            expect_average([&](const Inspection & a) { return &a.pairs[p].spearman[l]; },
                           [&](const Inspection & t) { return find(t)->spearman[l]; }, "rank correlation", counts);
            expect_average([&](const Inspection & a) { return &a.pairs[p].jaccard[l]; },
                           [&](const Inspection & t) { return find(t)->jaccard[l]; }, "overlap", counts);
        }
    }
}

TEST(Moments, OneValueHasNoDeviationAndLargeOnesLoseNothing) {
    Moments one;
    one.add(std::vector<double>{3});
    EXPECT_EQ(one.mean()[0], 3);
    EXPECT_EQ(one.deviation()[0], 0);
    Moments far;  // a difference of sums of squares would have no digit left
    for (const double x : {1e9 + 1, 1e9 + 2, 1e9 + 3}) { far.add(std::vector<double>{x}); }
    EXPECT_NEAR(far.deviation()[0], 1, 1e-6);
}

}  // namespace
}  // namespace pith::inspect_average_test
