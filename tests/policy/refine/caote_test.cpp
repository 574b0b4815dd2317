// caote_test.cpp - CAOTE's closed form is the error of evicting an entry, found by evicting it.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "policy/evidence_maker.h"
#include "policy/policy.h"
#include "policy/refine/caote_error.h"

namespace pith::test::caote_test {
namespace {

using Row = std::vector<float>;

struct RandomLane {
    Row scores;  // [G][n]
    Row values;  // [n][d]
    size_t n, d, n_group;

    double score(size_t g, size_t j) const { return scores[g * n + j]; }
    double value(size_t j, size_t c) const { return values[j * d + c]; }
};

RandomLane random_lane(Rng & rng, size_t n, size_t d, size_t n_group) {
    RandomLane lane{{}, {}, n, d, n_group};
    const auto unit = [&] { return static_cast<float>(random_int(rng, 1, 1 << 20)) / (1 << 20); };
    for (size_t i = 0; i < n_group * n; ++i) lane.scores.push_back(std::pow(unit(), 6.0F));
    for (size_t i = 0; i < n * d; ++i) lane.values.push_back(2 * unit() - 1);
    return lane;
}

// ‖X - X̃_j‖₂² of one query head: the output with the entry, and without it and renormalised.
double error_of_evicting(const RandomLane & lane, size_t g, size_t j) {
    double all = 0;
    double others = 0;
    for (size_t i = 0; i < lane.n; ++i) {
        all += lane.score(g, i);
        others += i == j ? 0 : lane.score(g, i);
    }
    double sum = 0;
    for (size_t c = 0; c < lane.d; ++c) {
        double with = 0;
        double without = 0;
        for (size_t i = 0; i < lane.n; ++i) {
            with += lane.score(g, i) / all * lane.value(i, c);
            without += i == j ? 0 : lane.score(g, i) / others * lane.value(i, c);
        }
        sum += (with - without) * (with - without);
    }
    return sum;
}

LayerEvidence evidence_of(const RandomLane & lane) {
    LayerEvidence evidence;
    evidence.n_kv_heads = 1;
    evidence.n_group = static_cast<int>(lane.n_group);
    evidence.n_seen = static_cast<int64_t>(lane.n);
    std::vector<int32_t> positions;
    for (size_t j = 0; j < lane.n; ++j) positions.push_back(static_cast<int32_t>(j));
    evidence.positions.push_row(positions);
    evidence.values = std::make_shared<HostValues>(std::vector<Row>{lane.values}, static_cast<int>(lane.d));
    return evidence;
}

Row refined(const char * policy, const LayerEvidence & evidence, const Row & head_scores, bool has_heads = true) {
    const auto n = static_cast<size_t>(evidence.length(0));
    const auto n_group = static_cast<size_t>(evidence.n_group);
    Ragged<float> heads;
    Row mean(n, 0.0F);
    for (size_t g = 0; g < n_group; ++g) {
        const Row row(head_scores.begin() + static_cast<std::ptrdiff_t>(g * n),
                      head_scores.begin() + static_cast<std::ptrdiff_t>((g + 1) * n));
        heads.push_row(row);
        for (size_t j = 0; j < n; ++j) mean[j] += row[j] / static_cast<float>(n_group);
    }
    Ragged<float> scores;
    scores.push_row(mean);
    const Policy parsed = Policy::parse(policy).value();
    const Status status = parsed.refiner()->refine(evidence, has_heads ? &heads : nullptr, {}, scores);
    EXPECT_TRUE(status.ok()) << status.message();
    return {scores.row(0).begin(), scores.row(0).end()};
}

TEST(Caote, TheClosedFormIsTheErrorOfEvictingTo1e9InF64) {
    Rng rng(1);
    for (int repeat = 0; repeat < 50; ++repeat) {
        const RandomLane lane = random_lane(rng, static_cast<size_t>(random_int(rng, 2, 60)), 8, 1);
        const std::vector<double> a = eviction_weights(lane.scores);
        const std::vector<double> others = sums_of_others(a);
        double sum = 0;
        for (const double x : a) sum += x;
        for (size_t j = 0; j < lane.n; ++j) {
            double distance = 0;
            for (size_t c = 0; c < lane.d; ++c) {
                double mean = 0;
                for (size_t i = 0; i < lane.n; ++i) mean += a[i] / sum * lane.value(i, c);
                distance += (lane.value(j, c) - mean) * (lane.value(j, c) - mean);
            }
            const double error = std::sqrt(error_of_evicting(lane, 0, j));
            EXPECT_NEAR(a[j] / others[j] * std::sqrt(distance), error, 1e-9 * (1 + error));
        }
    }
}

TEST(Caote, TheRefinerGivesTheErrorOfTheWholeGroupTo1e5) {
    Rng rng(2);
    for (const size_t n_group : {1, 2, 4}) {
        for (int repeat = 0; repeat < 30; ++repeat) {
            const RandomLane lane = random_lane(rng, static_cast<size_t>(random_int(rng, 2, 60)), 8, n_group);
            const Row got = refined("h2o+caote", evidence_of(lane), lane.scores);
            for (size_t j = 0; j < lane.n; ++j) {
                double squared = 0;  // the concatenated outputs of the group's query heads
                for (size_t g = 0; g < n_group; ++g) squared += error_of_evicting(lane, g, j);
                EXPECT_NEAR(got[j], std::sqrt(squared), 1e-5 * (1 + std::sqrt(squared))) << n_group << " heads, entry " << j;
            }
        }
    }
}

TEST(Caote, WithGroupMeanOrWithoutHeadScoresItIsTheErrorUnderTheMeanScore) {
    Rng rng(3);
    const RandomLane lane = random_lane(rng, 20, 8, 4);
    RandomLane mean = lane;
    mean.n_group = 1;
    mean.scores.assign(lane.n, 0.0F);
    for (size_t i = 0; i < lane.scores.size(); ++i) mean.scores[i % lane.n] += lane.scores[i] / 4;
    const Row by_option = refined("h2o+caote:group=mean", evidence_of(lane), lane.scores);
    const Row no_heads = refined("h2o+caote", evidence_of(lane), lane.scores, false);
    EXPECT_EQ(by_option, no_heads);
    for (size_t j = 0; j < lane.n; ++j) {
        const double error = std::sqrt(error_of_evicting(mean, 0, j));
        EXPECT_NEAR(by_option[j], error, 1e-5 * (1 + error));
    }
}

// values 0, 2, 4 … of size 1; scores 1, 1, 2: X = 2.5, the plain mean 2.
LayerEvidence evidence_of_three() {
    return evidence_of({{}, {0, 2, 4}, 3, 1, 1});
}

TEST(Caote, NumbersByHand) {
    const Row scores = {1, 1, 2};
    EXPECT_EQ(refined("h2o+caote", evidence_of_three(), scores), (Row{2.5F / 3, 0.5F / 3, 1.5F}));
    EXPECT_EQ(refined("h2o+caote:squared=true", evidence_of_three(), scores), (Row{6.25F / 3, 0.25F / 3, 2.25F}));
    EXPECT_EQ(refined("h2o+fastcaote", evidence_of_three(), scores), (Row{2.0F / 3, 0, 2}));
    EXPECT_EQ(refined("h2o+fastcaote:squared=true", evidence_of_three(), scores), (Row{4.0F / 3, 0, 4}));
}

TEST(Caote, ScoresThatAreNegativeAreShiftedByTheirMinimum) {
    EXPECT_EQ(refined("h2o+caote", evidence_of_three(), {-2, -2, -1}), (Row{0, 0, std::numeric_limits<float>::max()}))
        << "a = 0, 0, 1";
    EXPECT_EQ(refined("h2o+caote", evidence_of_three(), {-3, -1, 0}), refined("h2o+caote", evidence_of_three(), {0, 2, 3}));
}

TEST(Caote, WithoutAnyScoreAllEntriesCountAlike) {
    EXPECT_EQ(refined("h2o+caote", evidence_of_three(), {0, 0, 0}), refined("h2o+caote", evidence_of_three(), {1, 1, 1}));
    EXPECT_EQ(refined("h2o+caote", evidence_of_three(), {-5, -5, -5}), refined("h2o+caote", evidence_of_three(), {1, 1, 1}));
}

TEST(Caote, AnEntryThatIsAllHasTheLargestScoreAndNothingOverflows) {
    constexpr float kMost = std::numeric_limits<float>::max();
    for (const char * policy : {"h2o+caote", "h2o+fastcaote", "h2o+caote:squared=true", "h2o+fastcaote:squared=true"}) {
        EXPECT_EQ(refined(policy, evidence_of_three(), {0, 0, 7})[2], kMost) << policy;
        EXPECT_EQ(refined(policy, evidence_of_three(), {1e-45F, 1e-45F, 3e38F}).size(), 3U);
        for (const float score : refined(policy, evidence_of_three(), {1e-45F, 1e-45F, 3e38F}))
            EXPECT_TRUE(std::isfinite(score));
        EXPECT_EQ(refined(policy, evidence_of({{}, {5}, 1, 1, 1}), {2}), (Row{kMost})) << "a lane of one";
        EXPECT_EQ(refined(policy, evidence_of({{}, {}, 0, 1, 1}), {}), Row{}) << "an empty lane";
    }
}

TEST(Caote, OneMinusADoesNotCancel) {
    // a = (1, ε, ε) with ε = 2^-60: 1 - a₀ would be 0 in f64, the sum of the others is 2ε.
    const Row got = refined("h2o+fastcaote", evidence_of_three(), {1, 0x1p-60F, 0x1p-60F});
    EXPECT_EQ(got[0], 0x1p60F) << "1/(2ε) times the distance of 2";
}

TEST(Caote, WithoutValuesItSaysSo) {
    LayerEvidence evidence = evidence_of_three();
    evidence.values = nullptr;
    Ragged<float> scores;
    scores.push_row(Row{1, 2, 3});
    const Policy policy = Policy::parse("h2o+fastcaote").value();
    const Status status = policy.refiner()->refine(evidence, nullptr, {}, scores);
    EXPECT_EQ(status.code(), ErrorCode::kMissingEvidence);
    EXPECT_NE(status.message().find("fastcaote needs the values"), std::string::npos) << status.message();
    EXPECT_TRUE(policy.needs().values);
    EXPECT_TRUE(policy.refiner()->wants_head_scores());
    EXPECT_FALSE(Policy::parse("h2o+caote:group=mean").value().refiner()->wants_head_scores());
}

}  // namespace
}  // namespace pith::test::caote_test
