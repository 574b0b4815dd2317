// window_scorers_test.cpp - attnvar, vmax and matprod on numbers one can check by hand.
#include <cmath>

#include "policy/score/score_one.h"

namespace pith::test::window_scorers_test {
namespace {

TEST(AttnVar, AddsTheUnbiasedVarianceToTheMean) {
    LayerEvidence evidence = bare_evidence(1, 1, 4);
    evidence.n_window = 2;
    evidence.window_mean.push_row(Row{0.5F, 0.25F, 0.25F, 0});
    evidence.window_head_sq.push_row(Row{1, 0.125F, 0.125F, 0});  // the first: 1 and 0, variance ½; the others: ¼ twice, none
    EXPECT_EQ(scores_of("attnvar:window=2:gamma=4:pool=none", evidence), (std::vector<Row>{{2.5F, 0.25F, 0.25F, 0}}));
    EXPECT_EQ(scores_of("attnvar:window=2:gamma=4", evidence), (std::vector<Row>{{1.375F, 1.375F, 0.25F, 0}}))
        << "averaged over 5, the window's entries left out and as they were";
    EXPECT_EQ(Policy::parse("attnvar").value().needs(),
              (EvidenceNeeds{.window = 32, .window_mean = true, .window_head_sq = true}));
}

TEST(AttnVar, ASingleQueryHasNoVarianceAndRoundingMakesNoneNegative) {
    LayerEvidence evidence = bare_evidence(1, 1, 2);
    evidence.n_window = 1;
    evidence.window_mean.push_row(Row{0.5F, 0.25F});
    evidence.window_head_sq.push_row(Row{0.25F, 0.0625F});
    EXPECT_EQ(scores_of("attnvar:window=1:pool=none", evidence), (std::vector<Row>{{0.5F, 0.25F}}));
    evidence.n_window = 2;  // squares below n · mean²: as rounding may leave them
    EXPECT_EQ(scores_of("attnvar:window=1:pool=none", evidence), (std::vector<Row>{{0.5F, 0.25F}}));
}

TEST(VMax, ScalesALaneByItsLargestValueAndTakesTheGroupsMaximum) {
    LayerEvidence evidence = bare_evidence(2, 2, 3);
    evidence.window_mean.push_row(Row{1, 4, 2});
    evidence.window_mean.push_row(Row{3, 0, 2});
    evidence.window_mean.push_row(Row{1, 1, 1});
    evidence.window_mean.push_row(Row{1, 1, 1});
    evidence.value_l1.push_row(Row{1, 0.5F, 3});  // the largest belongs to the window: it does not count
    evidence.value_l1.push_row(Row{2, 5, 1});
    EXPECT_EQ(scores_of("vmax:window=1:pool=none", evidence), (std::vector<Row>{{3, 4, 2}, {5, 5, 5}}));
    EXPECT_EQ(scores_of("vmax:window=1:pool=none:group=mean", evidence), (std::vector<Row>{{2, 2, 2}, {5, 5, 5}}));
    EXPECT_EQ(scores_of("vmax:window=1", evidence)[0], (Row{4, 4, 2})) << "pooled before the maximum";
    EXPECT_EQ(head_scores_of("vmax:window=1:pool=none", evidence)[1], (Row{3, 0, 2}));
}

// A question in sight that is longer than the window: what it pays to itself is not the past's.
TEST(WindowPool, CutsOffAllWhoseQueriesWereObserved) {
    LayerEvidence evidence = bare_evidence(1, 1, 5);
    evidence.n_window = 3;
    evidence.window_mean.push_row(Row{1, 0, 8, 8, 2});
    evidence.value_l1.push_row(Row{1, 2, 9, 9, 9});
    EXPECT_EQ(scores_of("snapkv:window=1:pool=max3", evidence), (std::vector<Row>{{1, 1, 8, 8, 2}}));
    EXPECT_EQ(scores_of("vmax:window=1:pool=none", evidence), (std::vector<Row>{{2, 0, 16, 16, 4}}));
    evidence.n_window = 1;
    EXPECT_EQ(scores_of("snapkv:window=2:pool=max3", evidence), (std::vector<Row>{{1, 8, 8, 8, 2}}))
        << "the protected are cut off";
}

LayerEvidence product_evidence() {
    LayerEvidence evidence = bare_evidence(1, 2, 3);
    evidence.window_sq.push_row(Row{16, 4, 9});
    evidence.window_head_sq.push_row(Row{1, 4, 9});
    evidence.window_head_sq.push_row(Row{25, 16, 9});
    evidence.value_l2.push_row(Row{3, 2, 1});
    evidence.output_l2.push_row(Row{1, 2, 3});
    evidence.output_l2.push_row(Row{3, 4, 5});
    return evidence;
}

TEST(MatProd, MultipliesTheColumnsNormByTheValues) {
    const LayerEvidence evidence = product_evidence();
    EXPECT_EQ(scores_of("matprod:window=1:pool=none", evidence), (std::vector<Row>{{8, 6, 12}}));
    EXPECT_EQ(scores_of("matprod:window=1:pool=none:value=v", evidence), (std::vector<Row>{{12, 4, 3}}));
    EXPECT_EQ(scores_of("matprod:window=1:pool=none:value=none", evidence), (std::vector<Row>{{4, 2, 3}}));
    EXPECT_EQ(scores_of("matprod:window=1", evidence), (std::vector<Row>{{6, 9, 12}}))
        << "the norms 4 and 2 are averaged before the values come in; the window's 3 is left as it was";
    EXPECT_FALSE(Policy::parse("matprod").value().scorer().has_head_scores());
}

TEST(MatProd, WithGroupProductEachQueryHeadHasItsOwn) {
    const LayerEvidence evidence = product_evidence();
    EXPECT_EQ(head_scores_of("matprod:window=1:pool=none:group=product", evidence),
              (std::vector<Row>{{1, 4, 9}, {15, 16, 15}}));
    EXPECT_EQ(scores_of("matprod:window=1:pool=none:group=product", evidence), (std::vector<Row>{{8, 10, 12}}));
    EXPECT_EQ(scores_of("matprod:window=1:pool=none:group=product:value=v", evidence), (std::vector<Row>{{9, 6, 3}}));
    EXPECT_EQ(scores_of("matprod:window=1:pool=none:group=product:value=none", evidence), (std::vector<Row>{{3, 3, 3}}));
}

// Two query heads and two entries: 〈A_g, A_g'〉 of 4, 3, 9 and of 1, 0, 4; 〈v·W_g, v·W_g'〉 of 1, -1, 4 and of 1, 1, 1.
TEST(MatProd, WithGroupExactHeadsThatPullAgainstEachOtherCancel) {
    LayerEvidence evidence = bare_evidence(1, 2, 2);
    evidence.n_window = 1;
    for (const Row & row : {Row{4, 1}, Row{3, 0}, Row{9, 4}}) evidence.window_pairs.push_row(row);
    for (const Row & row : {Row{1, 1}, Row{-1, 1}, Row{4, 1}}) evidence.output_pairs.push_row(row);
    evidence.value_l2.push_row(Row{2, 3});
    const auto of = [](double sum) { return static_cast<float>(std::sqrt(sum) / 2); };
    EXPECT_EQ(scores_of("matprod:window=1:pool=none:group=exact", evidence),
              (std::vector<Row>{{of(4 * 1 + 2 * 3 * -1 + 9 * 4), of(1 + 0 + 4)}}));
    EXPECT_EQ(scores_of("matprod:window=1:pool=none:group=exact:value=none", evidence),
              (std::vector<Row>{{of(4 + 6 + 9), of(1 + 0 + 4)}}));
    const Row by_value = scores_of("matprod:window=1:pool=none:group=exact:value=v", evidence)[0];
    EXPECT_FLOAT_EQ(by_value[0], 2 * of(4 + 6 + 9));
    EXPECT_FLOAT_EQ(by_value[1], 3 * of(1 + 0 + 4));
}

TEST(MatProd, WithOneQueryHeadTheThreeReadingsOfGroupsAreOne) {
    LayerEvidence evidence = bare_evidence(1, 1, 5);
    evidence.n_window = 1;
    const Row squares = {16, 4, 9, 25, 1};
    const Row outputs = {2, 3, 4, 1, 7};
    Row output_squares;
    for (const float x : outputs) output_squares.push_back(x * x);
    evidence.window_sq.push_row(squares);
    evidence.window_head_sq.push_row(squares);
    evidence.window_pairs.push_row(squares);
    evidence.output_l2.push_row(outputs);
    evidence.output_pairs.push_row(output_squares);
    const std::vector<Row> mean = scores_of("matprod:window=1:pool=avg3", evidence);
    for (const char * policy : {"matprod:window=1:pool=avg3:group=product", "matprod:window=1:pool=avg3:group=exact"}) {
        const std::vector<Row> other = scores_of(policy, evidence);
        for (size_t j = 0; j < 5; ++j) EXPECT_FLOAT_EQ(other[0][j], mean[0][j]) << policy;
    }
}

TEST(MatProd, AsksOnlyForWhatItReads) {
    const auto needs = [](const char * policy) { return Policy::parse(policy).value().needs(); };
    EXPECT_EQ(needs("matprod"), (EvidenceNeeds{.window = 32, .window_sq = true, .output_l2 = true}));
    EXPECT_EQ(needs("matprod:value=v"), (EvidenceNeeds{.window = 32, .window_sq = true, .value_l2 = true}));
    EXPECT_EQ(needs("matprod:group=exact"), (EvidenceNeeds{.window = 32, .window_pairs = true, .output_pairs = true}));
    EXPECT_EQ(needs("matprod:value=none:group=product"), (EvidenceNeeds{.window = 32, .window_head_sq = true}));
}

}  // namespace
}  // namespace pith::test::window_scorers_test
