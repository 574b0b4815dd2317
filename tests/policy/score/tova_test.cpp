// tova_test.cpp - the last query's attention.
#include "policy/score/score_one.h"

namespace pith::test::tova_test {
namespace {

TEST(Tova, ScoresEachLaneByItsOwnHeads) {
    LayerEvidence evidence = bare_evidence(2, 1, 3);
    evidence.last_query.push_row(Row{1, 2, 3});
    evidence.last_query.push_row(Row{3, 2, 5});
    EXPECT_EQ(scores_of("tova", evidence), (std::vector<Row>{{1, 2, 3}, {3, 2, 5}}));
}

TEST(Tova, WithHeadsLayerAllLanesOfALayerScoreAlike) {
    LayerEvidence evidence = bare_evidence(2, 2, 3);
    evidence.last_query.push_row(Row{1, 2, 3});
    evidence.last_query.push_row(Row{1, 2, 3});
    evidence.last_query.push_row(Row{5, 0, 3});
    evidence.last_query.push_row(Row{1, 0, 3});
    EXPECT_EQ(scores_of("tova:heads=layer", evidence), (std::vector<Row>{{2, 1, 3}, {2, 1, 3}}));
    EXPECT_EQ(head_scores_of("tova:heads=layer", evidence)[2], (Row{5, 0, 3})) << "query heads keep their own";
}

TEST(Tova, WithHeadsLayerOnlyLanesThatHoldAPositionCount) {
    LayerEvidence evidence = bare_evidence(1, 1, 3);
    evidence.n_kv_heads = 2;
    evidence.positions.push_row(std::vector<int32_t>{0, 2});
    evidence.last_query.push_row(Row{1, 2, 3});
    evidence.last_query.push_row(Row{3, 5});
    EXPECT_EQ(scores_of("tova:heads=layer", evidence), (std::vector<Row>{{2, 2, 4}, {2, 4}}));
}

}  // namespace
}  // namespace pith::test::tova_test
