// threshold_test.cpp - sessions that keep as much as a text needs: also of what would fit, and no more often than once.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "engine/policy_probe.h"
#include "engine/tiny_session.h"
#include "policy/score/scorer.h"

namespace pith::threshold_test {
namespace {

using testing::Lanes;
using testing::lanes_below;
using testing::open_tiny;
using testing::random_tokens;
using testing::tiny_options;
using testing::tiny_spec;

constexpr int kText = 120;
constexpr int kSinks = 4;

// All scores of a second reading, lane by lane.
std::vector<std::vector<float>> scores_of(const std::vector<int32_t> & text) {
    SessionOptions options = tiny_options("full", 0, PrefillSchedule::kOneShot, 32);
    options.observe = {"reread"};
    Session session = open_tiny(options);
    EXPECT_TRUE(session.prefill(text).ok());
    const Policy policy = Policy::parse("reread").value();
    std::vector<std::vector<float>> all;
    for (int l = 0; l < session.n_layers(); ++l) {
        const auto evidence = PolicyProbe(session).evidence(l, policy.needs());
        EXPECT_TRUE(evidence.ok()) << evidence.status().message();
        Ragged<float> scores;
        EXPECT_TRUE(policy.scorer().score(*evidence, scores).ok());
        for (int h = 0; h < scores.n_rows(); ++h) { all.emplace_back(scores.row(h).begin(), scores.row(h).end()); }
    }
    return all;
}

float quantile(const std::vector<std::vector<float>> & scores, double share) {
    std::vector<float> all;
    for (const auto & lane : scores) { all.insert(all.end(), lane.begin(), lane.end()); }
    const auto at = all.begin() + static_cast<std::ptrdiff_t>(share * static_cast<double>(all.size()));
    std::ranges::nth_element(all, at);
    return *at;
}

Lanes reaching(const std::vector<std::vector<float>> & scores, float tau) {
    Lanes lanes;
    for (const auto & lane : scores) {
        lanes.emplace_back();
        for (int32_t p = 0; p < std::ssize(lane); ++p) {
            if (p < kSinks || lane[static_cast<size_t>(p)] >= tau) { lanes.back().push_back(p); }
        }
    }
    return lanes;
}

class ThresholdSession : public ::testing::Test {
protected:
    static std::string policy_of(float tau) { return "reread+threshold:tau=" + std::to_string(tau); }
    void SetUp() override {
        scores_ = scores_of(text_);
        tau_ = std::stof(std::to_string(quantile(scores_, 0.6)));  // as the policy's text has it
    }

    const std::vector<int32_t> text_ = random_tokens(kText, tiny_spec().n_vocab, 3);
    std::vector<std::vector<float>> scores_;
    float tau_ = 0;
};

TEST_F(ThresholdSession, KeepsWhatReachesTauOfATextThatFitsInTheBudget) {
    const Lanes expected = reaching(scores_, tau_);
    Session session = open_tiny(tiny_options(policy_of(tau_), 2 * kText, PrefillSchedule::kOneShot, 32));
    ASSERT_TRUE(session.prefill(text_).ok());
    EXPECT_EQ(lanes_below(session, kText), expected);
    int64_t n_kept = 0;
    for (const auto & lane : expected) { n_kept += std::ssize(lane); }
    EXPECT_EQ(session.ledger().kept_entries, n_kept);
    EXPECT_LT(n_kept, int64_t{kText} * std::ssize(expected) / 2);
    EXPECT_EQ(session.ledger().evicted_entries, int64_t{kText} * std::ssize(expected) - n_kept);
}

TEST_F(ThresholdSession, AppliedToASessionThatHasReadTheTextKeepsTheSame) {
    SessionOptions options = tiny_options("full", 0, PrefillSchedule::kOneShot, 32);
    options.observe = {"reread"};
    Session session = open_tiny(options);
    ASSERT_TRUE(session.prefill(text_).ok());
    const Status status = session.evict(policy_of(tau_), Budget(BudgetKind::kPercent, 100));
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(lanes_below(session, kText), reaching(scores_, tau_));
}

TEST_F(ThresholdSession, NeverHoldsMoreThanTheBudget) {
    constexpr int kBudget = kText / 5;
    Session session = open_tiny(tiny_options(policy_of(tau_), kBudget, PrefillSchedule::kOneShot, 32));
    ASSERT_TRUE(session.prefill(text_).ok());
    EXPECT_EQ(session.ledger().kept_entries, int64_t{kBudget} * session.ledger().n_lanes);
}

// What stayed of the text stays, however often its session evicts again.
TEST_F(ThresholdSession, TheTextLosesNothingMoreWhileAnAnswerIsWritten) {
    SessionOptions options = tiny_options(policy_of(tau_), 4 * kText, PrefillSchedule::kOneShot, 32);
    options.evict_every = 5;
    Session session = open_tiny(options);
    ASSERT_TRUE(session.prefill(text_).ok());
    const Lanes behind_text = lanes_below(session, kText);
    for (const int32_t token : random_tokens(23, tiny_spec().n_vocab, 8)) { ASSERT_TRUE(session.append(token).ok()); }
    EXPECT_EQ(lanes_below(session, kText), behind_text);
    EXPECT_GT(session.ledger().n_evictions, 1) << "what was written was weighed, too";
}

TEST_F(ThresholdSession, InChunksEveryChunkIsCutThoughItWouldFit) {
    Session session = open_tiny(tiny_options(policy_of(tau_), 2 * kText, PrefillSchedule::kChunked, 32));
    ASSERT_TRUE(session.prefill(text_).ok());
    EXPECT_EQ(session.ledger().n_evictions, (kText + 31) / 32);
    EXPECT_LT(session.ledger().kept_entries, int64_t{kText} * session.ledger().n_lanes);
}

}  // namespace
}  // namespace pith::threshold_test
