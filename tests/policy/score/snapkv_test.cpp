// snapkv_test.cpp - window attention, reduced over the group and pooled, in either order.
#include "policy/score/score_one.h"

namespace pith::test::snapkv_test {
namespace {

TEST(SnapKV, CutsTheWindowOffBeforePooling) {
    LayerEvidence evidence = bare_evidence(1, 1, 6);
    evidence.window_mean.push_row(Row{0, 1, 0, 0, 9, 8});
    EXPECT_EQ(scores_of("snapkv:window=2:pool=max7", evidence), (std::vector<Row>{{1, 1, 1, 1, 9, 8}}))
        << "the window's 9 must not leak into its neighbours; window entries stay unpooled";
    EXPECT_EQ(scores_of("snapkv:window=2:pool=none", evidence), (std::vector<Row>{{0, 1, 0, 0, 9, 8}}));
}

TEST(SnapKV, PoolsAfterOrBeforeTheGroup) {
    LayerEvidence evidence = bare_evidence(1, 2, 9);
    evidence.window_mean.push_row(Row{4, 0, 0, 0, 0, 0, 0, 0, 0});
    evidence.window_mean.push_row(Row{0, 0, 2, 0, 0, 0, 0, 2, 0});
    // The means are 2 0 1 0 0 0 0 1, of which each reaches three entries far.
    EXPECT_EQ(scores_of("snapkv:window=1", evidence), (std::vector<Row>{{2, 2, 2, 2, 1, 1, 1, 1, 0}}));
    EXPECT_EQ(scores_of("snapkv:window=1:group=max", evidence), (std::vector<Row>{{4, 4, 4, 4, 2, 2, 2, 2, 0}}));
    EXPECT_EQ(scores_of("snapkv:window=1:group=sum", evidence), (std::vector<Row>{{4, 4, 4, 4, 2, 2, 2, 2, 0}}));
    // Each head by itself first: where both reach, their sum is more than the largest mean.
    EXPECT_EQ(scores_of("snapkv:window=1:order=pool-group", evidence), (std::vector<Row>{{3, 3, 3, 3, 1, 1, 1, 1, 0}}));
    evidence.window_mean = {};
    evidence.window_mean.push_row(Row{4, 0, 0, 0, 0, 0, 0, 0, 0});
    evidence.window_mean.push_row(Row{0, 0, 0, 0, 0, 0, 0, 2, 0});
    EXPECT_EQ(head_scores_of("snapkv:window=1", evidence),
              (std::vector<Row>{{4, 4, 4, 4, 0, 0, 0, 0, 0}, {0, 0, 0, 0, 2, 2, 2, 2, 0}}));
}

TEST(SnapKV, AveragePoolingTakesTheOptionForItsEdges) {
    LayerEvidence evidence = bare_evidence(1, 1, 7);
    evidence.window_mean.push_row(Row{15, 0, 0, 0, 0, 30, 1});
    EXPECT_EQ(scores_of("snapkv:window=1:pool=avg5", evidence), (std::vector<Row>{{5, 3.75F, 3, 6, 7.5F, 10, 1}}));
    EXPECT_EQ(scores_of("snapkv:window=1:pool=avg5:pool_edges=zero", evidence), (std::vector<Row>{{3, 3, 3, 6, 6, 6, 1}}));
    EXPECT_EQ(scores_of("snapkv:window=1:pool=max3", evidence), (std::vector<Row>{{15, 15, 0, 0, 30, 30, 1}}));
    EXPECT_EQ(scores_of("snapkv:window=1:pool=avg3", evidence), (std::vector<Row>{{7.5F, 5, 0, 0, 10, 15, 1}}));
}

TEST(SnapKV, PoolingOverWhatIsBeforeKeepsWhatFollowsAKey) {
    LayerEvidence evidence = bare_evidence(1, 1, 7);
    evidence.window_mean.push_row(Row{0, 0, 9, 0, 0, 0, 1});
    EXPECT_EQ(scores_of("snapkv:window=1:pool=avg3:pool_over=before", evidence), (std::vector<Row>{{0, 0, 3, 3, 3, 0, 1}}));
}

TEST(SnapKV, ALaneShorterThanTheWindowIsAllWindow) {
    LayerEvidence evidence = bare_evidence(1, 1, 3);
    evidence.window_mean.push_row(Row{1, 2, 3});
    EXPECT_EQ(scores_of("snapkv", evidence), (std::vector<Row>{{1, 2, 3}}));
}

}  // namespace
}  // namespace pith::test::snapkv_test
