// inspect_texts_test.cpp - a table over texts says what the inspections of its texts say.
#include "inspect/inspect_texts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "engine/tiny_model.h"
#include "speed/policy_costs.h"

namespace pith::inspect_texts_test {
namespace {

TEST(InspectTexts, MeansAreOverTextsAndHeadsAreComparedWithTheBase) {
    const auto model = testing::tiny_model(testing::tiny_spec());
    ASSERT_TRUE(model.ok()) << model.status().message();
    InspectOptions options;
    options.policies = {"snapkv:window=8", "snapkv:window=8+critical", "random", "adakv:window=8"};
    options.budgets = {40};
    options.n_threads = 1;
    std::vector<Inspection> inspections;
    for (const int n : {90, 120, 150}) {
        auto one = inspect(*model, testing::random_tokens(static_cast<size_t>(n), model->info().n_vocab), options);
        ASSERT_TRUE(one.ok()) << one.status().message();
        inspections.push_back(std::move(*one));
    }
    const auto rows = summarise_texts(inspections);
    ASSERT_EQ(rows.size(), 4U);
    double cosine = 0;
    std::vector<double> less;  // of each head, summed over the texts
    for (const Inspection & inspection : inspections) {
        const InspectCase & base = inspection.cases[0];
        const InspectCase & critical = inspection.cases[1];
        for (const LayerFidelity & layer : critical.layers) {
            cosine += layer.cosine / static_cast<double>(critical.layers.size()) / 3;
        }
        less.resize(base.heads.size(), 0.0);
        for (size_t head = 0; head < base.heads.size(); ++head) {
            less[head] += base.heads[head].perturbation - critical.heads[head].perturbation;
        }
    }
    EXPECT_EQ(rows[1].policy, "snapkv:window=8+critical");
    EXPECT_EQ(rows[1].n_texts, 3);
    EXPECT_NEAR(rows[1].cosine, cosine, 1e-12);
    EXPECT_LE(rows[1].cosine_interval.low, rows[1].cosine);
    EXPECT_GE(rows[1].cosine_interval.high, rows[1].cosine);
    EXPECT_EQ(rows[1].base, "snapkv:window=8");
    const auto n_below = std::ranges::count_if(less, [](double x) { return x > 0; });
    EXPECT_NEAR(rows[1].heads_below_base, static_cast<double>(n_below) / static_cast<double>(less.size()), 1e-12);
    EXPECT_EQ(rows[0].kept_deviation, 0) << "uniform: 40 entries a lane, whatever the text";
    EXPECT_EQ(rows[2].base, "") << "plain snapkv is not among the policies";
    EXPECT_TRUE(summarise_texts({}).empty());
    EXPECT_GT(rows[3].kept_deviation, 0) << "what adakv gives a lane hangs on the text";

    // The table needs no positions: of many texts they are the most.
    for (Inspection & one : inspections) { keep_for_summary(one); }
    EXPECT_TRUE(inspections[0].cases[0].kept.empty());
    EXPECT_TRUE(inspections[0].pairs.empty());
    const auto again = summarise_texts(inspections);
    ASSERT_EQ(again.size(), rows.size());
    for (size_t i = 0; i < rows.size(); ++i) {
        EXPECT_EQ(again[i].kept_deviation, rows[i].kept_deviation);
        EXPECT_EQ(again[i].mass, rows[i].mass);
        EXPECT_EQ(again[i].sigma_share, rows[i].sigma_share);
        EXPECT_EQ(again[i].hidden_error, rows[i].hidden_error);
        EXPECT_EQ(again[i].cosine, rows[i].cosine);
        EXPECT_EQ(again[i].same_choice, rows[i].same_choice);
        EXPECT_EQ(again[i].heads_below_base, rows[i].heads_below_base);
    }
    EXPECT_EQ(kept_of_lanes(inspections[0].cases[0]), std::vector<double>(6, 40)) << "3 layers of 2 lanes";
}

TEST(BasePolicy, IsThePolicyWithoutWhatItAdds) {
    EXPECT_EQ(base_policy("h2o+caote"), "h2o");
    EXPECT_EQ(base_policy("laprox"), "snapkv");
    EXPECT_EQ(base_policy("criticalkv"), "snapkv");
    EXPECT_EQ(base_policy("critical-adakv"), "adakv");
    EXPECT_EQ(base_policy("critical-headkv:window=8:alpha=0.3"), "headkv:window=8");
    EXPECT_EQ(base_policy("snapkv:window=16+ada+critical:alpha=0.5"), "snapkv:window=16+ada");
}

}  // namespace
}  // namespace pith::inspect_texts_test
