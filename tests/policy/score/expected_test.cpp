// expected_test.cpp - a softmax per query head, then the group, then the value.
#include <cmath>

#include "policy/score/score_one.h"

namespace pith::test::expected_test {
namespace {

LayerEvidence evidence_of_three() {
    LayerEvidence evidence = bare_evidence(1, 2, 3);
    const auto log2 = static_cast<float>(std::log(2.0));
    evidence.expected.push_row(Row{0, 0, log2});            // ¼ ¼ ½
    evidence.expected.push_row(Row{300 + log2, 300, 300});  // ½ ¼ ¼, where a bare exp() would overflow
    evidence.value_l2.push_row(Row{1, 2, 4});
    return evidence;
}

void expect_close(const std::vector<Row> & got, const std::vector<Row> & expected) {
    ASSERT_EQ(got.size(), expected.size());
    for (size_t r = 0; r < got.size(); ++r) {
        ASSERT_EQ(got[r].size(), expected[r].size());
        for (size_t j = 0; j < got[r].size(); ++j)
            EXPECT_NEAR(got[r][j], expected[r][j], 2e-5F * expected[r][j]) << r << ", " << j;
    }
}

TEST(Expected, IsTheSoftmaxOfTheExponentTimesTheValue) {
    const LayerEvidence evidence = evidence_of_three();
    expect_close(scores_of("expected:sinks=0", evidence), {{0.375F, 0.5F, 1.5F}});
    expect_close(head_scores_of("expected:sinks=0", evidence), {{0.25F, 0.5F, 2}, {0.5F, 0.5F, 1}});
    expect_close(scores_of("expected:vnorm=off:sinks=0", evidence), {{0.375F, 0.25F, 0.375F}});
    expect_close(scores_of("expected:vnorm=off:group=max:sinks=0", evidence), {{0.5F, 0.25F, 0.5F}});
    expect_close(scores_of("expected:eps=0.5:sinks=0", evidence), {{0.875F, 1.5F, 3.5F}});
}

TEST(Expected, LeavesItsSinksOutOfTheSoftmaxAndKeepsThem) {
    LayerEvidence evidence = bare_evidence(1, 1, 4);
    evidence.expected.push_row(Row{900, 0, 0, static_cast<float>(std::log(2.0))});  // a sink that would take it all
    evidence.value_l2.push_row(Row{1, 1, 1, 1});
    expect_close(scores_of("expected:sinks=1", evidence), {{0, 0.25F, 0.25F, 0.5F}});
    expect_close(scores_of("expected", evidence), {{0, 0, 0, 0}});  // four sinks: the whole lane
    EXPECT_EQ(Policy::parse("expected").value().n_sinks(), 4);
}

TEST(Expected, AsksForTheFutureItLooksAt) {
    EXPECT_EQ(Policy::parse("expected").value().needs(), (EvidenceNeeds{.expected_future = 512, .value_l2 = true}));
    EXPECT_EQ(Policy::parse("expected:future=8:vnorm=off").value().needs(), (EvidenceNeeds{.expected_future = 8}));
}

TEST(KeyDiff, PrefersKeysThatPointElsewhere) {
    LayerEvidence evidence = bare_evidence(1, 1, 3);
    evidence.key_cosine.push_row(Row{0.5F, -1, 1});
    EXPECT_EQ(scores_of("keydiff", evidence), (std::vector<Row>{{-0.5F, 1, -1}}));
    EXPECT_EQ(Policy::parse("keydiff").value().n_recent(1024), 32);
}

}  // namespace
}  // namespace pith::test::expected_test
