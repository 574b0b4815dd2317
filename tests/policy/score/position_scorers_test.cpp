// position_scorers_test.cpp - scorers that look at no attention: streaming, window, random, knorm.
#include <set>

#include "policy/score/score_one.h"

namespace pith::test::position_scorers_test {
namespace {

TEST(PositionScorers, StreamingAndWindowPreferTheNewest) {
    const LayerEvidence evidence = bare_evidence(1, 1, 4);
    EXPECT_EQ(scores_of("streaming", evidence), (std::vector<Row>{{0, 1, 2, 3}}));
    EXPECT_EQ(scores_of("window", evidence), (std::vector<Row>{{0, 1, 2, 3}}));
}

TEST(PositionScorers, KNormPrefersKeysOfSmallNorm) {
    LayerEvidence evidence = bare_evidence(1, 1, 3);
    evidence.key_norm.push_row(Row{1, 0.5F, 2});
    EXPECT_EQ(scores_of("knorm", evidence), (std::vector<Row>{{-1, -0.5F, -2}}));
}

TEST(PositionScorers, RandomDependsOnSeedLayerHeadAndPositionOnly) {
    LayerEvidence evidence = bare_evidence(2, 1, 200);
    const auto scores = scores_of("random", evidence);
    EXPECT_EQ(scores_of("random", evidence), scores);
    EXPECT_NE(scores[0], scores[1]) << "heads differ";
    EXPECT_NE(scores_of("random:seed=1", evidence)[0], scores[0]);
    EXPECT_GT(std::set<float>(scores[0].begin(), scores[0].end()).size(), 190U);
    double mean = 0;
    for (const float x : scores[0]) mean += x / 200;
    EXPECT_NEAR(mean, 0.5, 0.1);
    evidence.layer = 1;
    EXPECT_NE(scores_of("random", evidence)[0], scores[0]) << "layers differ";

    LayerEvidence compacted = bare_evidence(1, 1, 1);
    compacted.positions.row(0)[0] = 123;
    EXPECT_EQ(scores_of("random", compacted)[0][0], scores[0][123]) << "an entry keeps its score through compaction";
}

}  // namespace
}  // namespace pith::test::position_scorers_test
