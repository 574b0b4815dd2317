// gate_test.cpp - the score that the model's gates give: the probability itself, whatever the rest of the evidence.
#include "policy/score/score_one.h"

namespace pith::test::gate_test {
namespace {

LayerEvidence evidence_of(const std::vector<Row> & retention) {
    LayerEvidence evidence = bare_evidence(static_cast<int>(retention.size()), 2, static_cast<int>(retention.front().size()));
    for (const Row & row : retention) evidence.retention.push_row(row);
    return evidence;
}

TEST(Gate, ScoresEachLaneByItsOwnProbabilities) {
    // Logits -2, 0, 1 and ln 3 under sigmoid; the threshold of 0.5 is crossed, and no score shows it.
    const std::vector<Row> retention = {{0.11920292F, 0.5F, 0.73105858F, 0.75F}, {1, 0.25F, 0, 0.5F}};
    EXPECT_EQ(scores_of("gate", evidence_of(retention)), retention);
    EXPECT_EQ(scores_of("gate:recent=0", evidence_of(retention)), retention) << "protection is a range, never a changed score";
}

TEST(Gate, LanesThatGatesLeftEmptyHaveNoScores) {
    LayerEvidence evidence;
    evidence.n_kv_heads = 2;
    evidence.n_group = 1;
    evidence.n_seen = 9;
    evidence.positions.push_row(std::vector<int32_t>{});
    evidence.positions.push_row(std::vector<int32_t>{4, 7});
    evidence.retention.push_row(Row{});
    evidence.retention.push_row(Row{0.5F, 0.25F});
    EXPECT_EQ(scores_of("gate", evidence), (std::vector<Row>{{}, {0.5F, 0.25F}}));
}

TEST(Gate, AsksForRetentionAndProtectsTheNewestUnlessToldNotTo) {
    EvidenceNeeds retention;
    retention.retention = true;
    EXPECT_EQ(Policy::parse("gate")->needs(), retention);
    EXPECT_TRUE(Policy::parse("gate")->needs_gate());
    EXPECT_FALSE(Policy::parse("gate")->gated());
    EXPECT_EQ(Policy::parse("gate:recent=3")->n_recent(100), 3);
    EXPECT_EQ(Policy::parse("gate:recent=0")->n_recent(100), 0);
    EXPECT_EQ(Policy::parse("gate")->n_recent(100), Policy::parse("h2o")->n_recent(100));
    Ragged<float> scores;
    const Status status = Policy::parse("gate")->scorer().score(bare_evidence(1, 1, 3), scores);
    EXPECT_EQ(status.code(), ErrorCode::kMissingEvidence);
    EXPECT_NE(status.message().find("retention"), std::string::npos) << status.message();
}

}  // namespace
}  // namespace pith::test::gate_test
