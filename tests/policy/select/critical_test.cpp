// critical_test.cpp - CriticalKV's two stages, their order under a shrinking share, and the theorems they stand on.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "policy/evidence_maker.h"
#include "policy/policy.h"
#include "policy/select/selector.h"

namespace pith::test::critical_test {
namespace {

struct Lane {
    std::vector<float> scores;
    std::vector<float> norms;  // |v·W_O|₁
    std::vector<IndexRange> is_protected;
    int n_recent = 0;  // of these, the newest
};

LayerChoice choose(const char * policy, const Lane & lane, int share) {
    LayerEvidence evidence;
    evidence.n_kv_heads = 1;
    evidence.n_group = 1;
    std::vector<int32_t> positions(lane.scores.size());
    for (size_t j = 0; j < positions.size(); ++j) positions[j] = static_cast<int32_t>(j);
    evidence.positions.push_row(positions);
    evidence.output_l1.push_row(lane.norms);
    Ragged<float> scores;
    scores.push_row(lane.scores);
    Ragged<IndexRange> ranges;
    ranges.push_row(lane.is_protected);
    const LayerView view{.positions = evidence.positions,
                         .scores = scores,
                         .protected_ranges = ranges,
                         .evidence = &evidence,
                         .base_scores = &scores,
                         .n_recent = lane.n_recent};
    LayerChoice choice;
    const Status status = Policy::parse(policy).value().selector().select(view, std::vector<int>{share}, run_in_turn, choice);
    EXPECT_TRUE(status.ok()) << status.message();
    return choice;
}

std::vector<int32_t> kept(const char * policy, const Lane & lane, int share) {
    const LayerChoice choice = choose(policy, lane, share);
    return {choice.keep.row(0).begin(), choice.keep.row(0).end()};
}

using Indices = std::vector<int32_t>;

TEST(Critical, TakesHalfByScoreAndTheRestByScoreTimesNorm) {
    const Lane lane{{5, 4, 3, 2, 1}, {1, 1, 1, 2, 9}, {}};
    EXPECT_EQ(kept("snapkv+critical", lane, 2), (Indices{0, 4})) << "5 by score, then 1 · 9";
    EXPECT_EQ(kept("snapkv+critical", lane, 3), (Indices{0, 3, 4})) << "⌊1.5⌋ by score; then 9, and (2 + ε) · 2 before 4 + ε";
    EXPECT_EQ(kept("snapkv+critical:eps=0", lane, 3), (Indices{0, 3, 4})) << "of 4 and 4 the newer";
    EXPECT_EQ(kept("snapkv+critical:alpha=0", lane, 1), (Indices{4}));
    EXPECT_EQ(kept("snapkv+critical:alpha=1", lane, 3), (Indices{0, 1, 2}));
}

// Values may be broken where attention, which has no part of them, is not.
TEST(Critical, RefusesToRankByWhatIsNoNumber) {
    LayerEvidence evidence;
    evidence.n_kv_heads = evidence.n_group = 1;
    evidence.layer = 3;
    evidence.positions.push_row(Indices{0, 1, 5});
    evidence.output_l1.push_row(std::vector<float>{1, 1, NAN});
    Ragged<float> scores;
    scores.push_row(std::vector<float>{1, 2, 3});
    Ragged<IndexRange> ranges;
    ranges.push_row(std::vector<IndexRange>{});
    const LayerView view{.positions = evidence.positions, .scores = scores, .protected_ranges = ranges, .evidence = &evidence};
    LayerChoice choice;
    const Status status =
        Policy::parse("snapkv+critical").value().selector().select(view, std::vector<int>{2}, run_in_turn, choice);
    EXPECT_EQ(status.code(), ErrorCode::kNotFinite);
    EXPECT_NE(status.message().find("layer 3, head 0, entry 2 (position 5)"), std::string::npos) << status.message();
}

TEST(Critical, ProtectedEntriesUseUpNothingOfTheFirstStage) {
    const Lane lane{{9, 5, 4, 3, 9}, {1, 1, 1, 8, 1}, {{0, 1}, {4, 5}}};
    EXPECT_EQ(kept("snapkv+critical", lane, 2), (Indices{0, 1, 3, 4})) << "one by score beside both protected ones";
    EXPECT_EQ(kept("snapkv+critical", lane, 0), (Indices{0, 4}));
}

TEST(Critical, WithStage1WindowTheWindowTakesPlacesOfTheFirstStage) {
    const Lane lane{{5, 4, 3, 2, 1, 9}, {0.1F, 1, 1, 2, 9, 1}, {{5, 6}}, 1};
    EXPECT_EQ(kept("snapkv+critical", lane, 2), (Indices{0, 4, 5})) << "5 by score";
    // ⌊(2 + 1) / 2⌋ places by score, and the window's entry has it.
    EXPECT_EQ(kept("snapkv+critical:stage1=window", lane, 2), (Indices{3, 4, 5}));
    EXPECT_EQ(kept("snapkv+critical:stage1=window", lane, 3), (Indices{0, 3, 4, 5})) << "⌊4 / 2⌋, one of them free";
    EXPECT_EQ(kept("snapkv+critical:stage1=window:alpha=1", lane, 2), (Indices{0, 1, 5}));
}

TEST(Critical, NegativeScoresAreShiftedSoThatALargeValueDoesNotSpeakAgainstAnEntry) {
    const Lane lane{{-4, -3, -2, -1}, {1, 9, 1, 1}, {}};
    EXPECT_EQ(kept("snapkv+critical:alpha=0", lane, 2), (Indices{1, 3})) << "(0, 1, 2, 3) · (1, 9, 1, 1)";
}

Lane random_lane(Rng & rng, int n) {
    Lane lane;
    for (int j = 0; j < n; ++j) {
        lane.scores.push_back(static_cast<float>(random_int(rng, 0, 12)) / 16);
        lane.norms.push_back(static_cast<float>(random_int(rng, 0, 6)));
    }
    const int begin = random_int(rng, 0, n);
    const int end = std::min(n, begin + random_int(rng, 0, 3));
    if (begin < end) lane.is_protected.push_back({begin, end});
    return lane;
}

TEST(Critical, CuttingTheTailLaterIsChoosingWithTheSmallerShare) {
    Rng rng(1);
    for (const char * policy :
         {"snapkv+critical", "snapkv+critical:alpha=0.3", "snapkv+critical:alpha=0", "snapkv+critical:alpha=1"}) {
        for (int repeat = 0; repeat < 40; ++repeat) {
            const Lane lane = random_lane(rng, random_int(rng, 1, 30));
            int n_candidates = static_cast<int>(lane.scores.size());
            for (const IndexRange & range : lane.is_protected) n_candidates -= range.end - range.begin;
            const LayerChoice all = choose(policy, lane, n_candidates);
            std::vector<std::pair<float, int32_t>> order;  // candidates by priority
            std::set<int32_t> is_protected;
            for (const IndexRange & range : lane.is_protected) {
                for (int j = range.begin; j < range.end; ++j) is_protected.insert(j);
            }
            for (size_t i = 0; i < all.keep.size(); ++i) {
                const int32_t j = all.keep.row(0)[i];
                if (!is_protected.contains(j)) order.emplace_back(-all.priority.row(0)[i], j);
            }
            std::sort(order.begin(), order.end());
            for (int share = 0; share <= n_candidates; ++share) {
                std::set<int32_t> from_the_tail = is_protected;
                for (int i = 0; i < share; ++i) from_the_tail.insert(order[static_cast<size_t>(i)].second);
                ASSERT_EQ(kept(policy, lane, share), Indices(from_the_tail.begin(), from_the_tail.end()))
                    << policy << ", " << share;
            }
        }
    }
}

// One query, one head: attention A over entries whose values through W_O are rows [d].
struct Attention {
    std::vector<double> a;
    std::vector<std::vector<double>> rows;

    double norm(size_t j) const {
        double sum = 0;
        for (const double x : rows[j]) sum += std::abs(x);
        return sum;
    }
};

Attention random_attention(Rng & rng, int n, double sharpness) {
    Attention attention;
    double sum = 0;
    for (int j = 0; j < n; ++j) {
        attention.a.push_back(std::exp(sharpness * random_int(rng, 0, 1000) / 1000.0));
        sum += attention.a.back();
        std::vector<double> row;
        for (int c = 0; c < 6; ++c) row.push_back(random_int(rng, -1000, 1000) / 500.0);
        attention.rows.push_back(row);
    }
    for (double & x : attention.a) x /= sum;
    return attention;
}

// ‖A·V - A'·V‖₁ with A' renormalised over what is kept.
double true_perturbation(const Attention & attention, const Indices & kept) {
    double mass = 0;
    for (const int32_t j : kept) mass += attention.a[static_cast<size_t>(j)];
    double total = 0;
    for (size_t c = 0; c < attention.rows[0].size(); ++c) {
        double with_all = 0;
        double with_kept = 0;
        for (size_t j = 0; j < attention.a.size(); ++j) with_all += attention.a[j] * attention.rows[j][c];
        for (const int32_t j : kept)
            with_kept += attention.a[static_cast<size_t>(j)] / mass * attention.rows[static_cast<size_t>(j)][c];
        total += std::abs(with_all - with_kept);
    }
    return total;
}

// Theorem 3.3: θ = C - (2 - 1/Σ_kept A) · Σ_kept A·‖v‖₁, C = Σ A·‖v‖₁.  With σ in place of Σ_kept A: Theorem 3.5's θ̂.
double bound(const Attention & attention, const Indices & kept, double sigma) {
    double c = 0;
    for (size_t j = 0; j < attention.a.size(); ++j) c += attention.a[j] * attention.norm(j);
    double sum = 0;
    for (const int32_t j : kept) sum += attention.a[static_cast<size_t>(j)] * attention.norm(static_cast<size_t>(j));
    return c - (2 - 1 / sigma) * sum;
}

double mass_of(const Attention & attention, const Indices & kept) {
    double mass = 0;
    for (const int32_t j : kept) mass += attention.a[static_cast<size_t>(j)];
    return mass;
}

Lane lane_of(const Attention & attention, int n_protected) {
    Lane lane;
    for (size_t j = 0; j < attention.a.size(); ++j) {
        lane.scores.push_back(static_cast<float>(attention.a[j]));
        lane.norms.push_back(static_cast<float>(attention.norm(j)));
    }
    const auto n = static_cast<int>(attention.a.size());
    if (n_protected > 0) lane.is_protected.push_back({n - n_protected, n});
    return lane;
}

TEST(Critical, ThetaIsNeverBelowTheTruePerturbation) {
    Rng rng(2);
    for (int repeat = 0; repeat < 1000; ++repeat) {
        const int n = random_int(rng, 3, 40);
        const Attention attention = random_attention(rng, n, random_int(rng, 0, 12));
        const int n_protected = random_int(rng, 0, 2);
        const Indices entries = kept("snapkv+critical", lane_of(attention, n_protected), random_int(rng, 1, n - n_protected));
        const double theta = bound(attention, entries, mass_of(attention, entries));
        ASSERT_GE(theta, true_perturbation(attention, entries) - 1e-12) << "case " << repeat;
    }
}

TEST(Critical, TheSecondStageNeverRaisesTheBoundOfTheorem35) {
    Rng rng(3);
    int n_cases = 0;
    int n_lower = 0;
    for (int repeat = 0; repeat < 4000 && n_cases < 1000; ++repeat) {
        const int n = random_int(rng, 6, 40);
        const Attention attention = random_attention(rng, n, random_int(rng, 4, 14));
        const int n_protected = random_int(rng, 0, 2);
        const Lane lane = lane_of(attention, n_protected);
        const int share = random_int(rng, 2, n - n_protected);
        // σ: the mass of what is protected and of stage 1.
        const double sigma = mass_of(attention, kept("snapkv+critical:alpha=1", lane, share / 2));
        if (sigma <= 0.5) continue;
        ++n_cases;
        const double two_stages = bound(attention, kept("snapkv+critical:eps=0", lane, share), sigma);
        const double by_attention = bound(attention, kept("snapkv+topk", lane, share), sigma);
        ASSERT_LE(two_stages, by_attention + 1e-6) << "case " << repeat;  // scores and norms are f32
        n_lower += two_stages < by_attention - 1e-6 ? 1 : 0;
    }
    EXPECT_EQ(n_cases, 1000);
    EXPECT_GT(n_lower, 100) << "it must also help";
}

}  // namespace
}  // namespace pith::test::critical_test
