// compactor_test.cpp - leverage of keys and attention within blocks, each standardised over the layer.
#include <cmath>

#include "policy/formulas.h"
#include "policy/score/score_one.h"

namespace pith::test::compactor_test {
namespace {

// mean_g Σ_i A · |v|₂, pooled.
std::vector<double> attention_of(const PartVariant & scorer, const LayerEvidence & e, int h) {
    std::vector<double> column;
    for (size_t j = 0; j < e.positions.row(h).size(); ++j) {
        double sum = 0;
        for (int g = 0; g < e.n_group; ++g) { sum += e.block_attention.row(h * e.n_group + g)[j]; }
        column.push_back(sum / e.n_group * e.value_l2.row(h)[j]);
    }
    const std::string & kind = scorer.options.at("pool");
    if (kind == "none") { return column; }
    const int reach = std::stoi(kind.substr(3)) / 2;
    const int n = static_cast<int>(column.size());
    std::vector<double> pooled;
    for (int j = 0; j < n; ++j) {
        double most = -1e30;
        double sum = 0;
        int under = 0;
        for (int i = std::max(0, j - reach); i <= std::min(n - 1, j + reach); ++i, ++under) {
            most = std::max(most, column[static_cast<size_t>(i)]);
            sum += column[static_cast<size_t>(i)];
        }
        pooled.push_back(kind.starts_with("max") ? most : sum / under);
    }
    return pooled;
}

// Over all lanes of the layer, the first eight positions left out.
double standardised(const LayerEvidence & e, const std::vector<std::vector<double>> & lanes, int h, size_t j) {
    std::vector<double> counted;
    for (int lane = 0; lane < e.n_kv_heads; ++lane) {
        for (size_t i = 0; i < lanes[static_cast<size_t>(lane)].size(); ++i) {
            if (e.positions.row(lane)[i] >= 8) { counted.push_back(lanes[static_cast<size_t>(lane)][i]); }
        }
    }
    const auto n = static_cast<double>(counted.size());
    double mean = 0;
    for (const double x : counted) { mean += x / n; }
    double variance = 0;
    for (const double x : counted) { variance += (x - mean) * (x - mean) / (n - 1); }
    const double deviation = n > 1 ? std::sqrt(variance) : 0.0;
    return (lanes[static_cast<size_t>(h)][j] - mean) / std::max(deviation, 1e-6);
}

std::vector<float> compactor(const PartVariant & scorer, const LayerEvidence & e, int h) {
    std::vector<std::vector<double>> attention;
    std::vector<std::vector<double>> leverage;
    for (int lane = 0; lane < e.n_kv_heads; ++lane) {
        attention.push_back(attention_of(scorer, e, lane));
        leverage.emplace_back(e.key_leverage.row(lane).begin(), e.key_leverage.row(lane).end());
    }
    std::vector<float> scores;
    for (size_t j = 0; j < e.positions.row(h).size(); ++j) {
        scores.push_back(
            static_cast<float>(standardised(e, attention, h, j) + scorer.number("blend") * standardised(e, leverage, h, j)));
    }
    return scores;
}
// What is left of a mean over a wide kernel, in deviations, is rounded more coarsely than the mean itself.
const Known<ScorerFormula> kCompactor({"compactor", compactor, /*tolerance=*/1e-4});

// One lane, two query heads; positions 0 to 7 are the first tokens, 8 to 10 count.
LayerEvidence three_entries_behind_the_first() {
    LayerEvidence evidence = bare_evidence(/*n_kv_heads=*/1, /*n_group=*/2, /*n=*/11);
    evidence.block_attention.push_row(Row{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0});
    evidence.block_attention.push_row(Row{1, 1, 1, 1, 1, 1, 1, 1, 3, 1, 0});
    evidence.value_l2.push_row(Row{1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 5});                 // attention 4, 2, 0: mean 2, deviation 2
    evidence.key_leverage.push_row(Row{1, 1, 1, 1, 1, 1, 1, 1, 0.25F, 0.5F, 0.75F});  // mean a half, deviation a quarter
    return evidence;
}

TEST(Compactor, AddsAttentionAndLeverageInTheirDeviations) {
    const std::vector<Row> scores = scores_of("compactor:pool=none", three_entries_behind_the_first());
    EXPECT_FLOAT_EQ(scores[0][8], 1 - 0.5F);
    EXPECT_FLOAT_EQ(scores[0][9], 0);
    EXPECT_FLOAT_EQ(scores[0][10], -1 + 0.5F);
    EXPECT_FLOAT_EQ(scores_of("compactor:pool=none:blend=3", three_entries_behind_the_first())[0][10], -1 + 3);
}

TEST(Compactor, WhatIsEverywhereTheSameDecidesNothing) {
    LayerEvidence evidence = three_entries_behind_the_first();
    for (float & x : evidence.key_leverage.flat()) { x = 1; }
    EXPECT_FLOAT_EQ(scores_of("compactor:pool=none", evidence)[0][8], 1);
    LayerEvidence few = bare_evidence(1, 1, 3);  // first tokens alone
    few.block_attention.push_row(Row{1, 1, 1});
    few.value_l2.push_row(Row{0, 0, 0});
    few.key_leverage.push_row(Row{0, 0, 0});
    EXPECT_EQ(scores_of("compactor", few), (std::vector<Row>{{0, 0, 0}}));
}

TEST(Compactor, ProtectsItsSinksAndItsTail) {
    EXPECT_EQ(Policy::parse("compactor").value().n_sinks(), 8);
    EXPECT_EQ(Policy::parse("compactor").value().n_recent(100), 4);
    EXPECT_EQ(Policy::parse("compactor:sinks=3:recent=half").value().n_recent(100), 50);
    EXPECT_FALSE(Policy::parse("compactor").value().judges_by_newest_queries());
    EXPECT_TRUE(Policy::parse("compactor+caote+preference").ok());
}

}  // namespace
}  // namespace pith::test::compactor_test
