// interval_test.cpp - 95 % intervals against their definitions.
#include "core/interval.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

namespace pith::interval_test {
namespace {

TEST(WilsonInterval, EndsWhereTheCountIsJust196StandardErrorsAway) {
    for (const int n : {1, 10, 100, 263}) {
        for (int right = 0; right <= n; right += std::max(1, n / 7)) {
            const Interval interval = wilson_interval(right, n);
            const double share = static_cast<double>(right) / n;
            for (const double end : {interval.low, interval.high}) {
                EXPECT_GE(end, 0);
                EXPECT_LE(end, 1);
                const double error = std::sqrt(end * (1 - end) / n);
                EXPECT_NEAR(std::abs(end - share), 1.959964 * error, 1e-6) << right << " of " << n;
            }
            EXPECT_LE(interval.low, share);
            EXPECT_GE(interval.high, share);
        }
    }
}

TEST(WilsonInterval, HasTheWidthThatTablesGive) {
    EXPECT_NEAR(wilson_interval(81, 263).low, 0.2553, 5e-5);
    EXPECT_NEAR(wilson_interval(81, 263).high, 0.3662, 5e-5);
    EXPECT_EQ(wilson_interval(0, 0), (Interval{0, 1}));
}

TEST(BootstrapInterval, HoldsTheTrueMeanAboutAsOftenAsItSays) {
    std::mt19937 random(3);
    std::normal_distribution<double> normal(5, 2);
    int n_held = 0;
    for (int round = 0; round < 100; ++round) {
        std::vector<double> values(40);
        for (double & value : values) { value = normal(random); }
        const Interval interval = bootstrap_interval(values);
        n_held += interval.low <= 5 && 5 <= interval.high ? 1 : 0;
        // The normal distribution's interval is the mean ± 1.96 standard errors: 0.62 here.
        EXPECT_NEAR(interval.high - interval.low, 1.24, 0.5);
    }
    EXPECT_GE(n_held, 85);
}

TEST(BootstrapInterval, IsAPointForEqualValuesAndTheSameEachTime) {
    EXPECT_EQ(bootstrap_interval(std::vector<double>(9, 0.5)), (Interval{0.5, 0.5}));
    EXPECT_EQ(bootstrap_interval({}), (Interval{0, 0}));
    const std::vector<double> values = {0.1, 0.9, 0.4, 0.7};
    EXPECT_EQ(bootstrap_interval(values), bootstrap_interval(values));
}

TEST(ScoreInterval, IsWilsonsForRightAndWrong) {
    for (const int n : {1, 3, 30}) {
        for (int right = 0; right <= n; ++right) {
            std::vector<double> scores(static_cast<size_t>(n), 0.0);
            std::fill(scores.begin(), scores.begin() + right, 1.0);
            const Interval interval = score_interval(scores);
            const Interval wilson = wilson_interval(right, n);
            EXPECT_NEAR(interval.low, wilson.low, 1e-9) << right << " of " << n;
            EXPECT_NEAR(interval.high, wilson.high, 1e-9) << right << " of " << n;
        }
    }
    EXPECT_EQ(score_interval({}), (Interval{0, 1}));
}

// By hand: 30 scores of ½ and a 0 and a 1 more have the mean ½ and the variance 2·¼/32, a sixteenth of ½·½; so Wilson's of 240
// in 480.
TEST(ScoreInterval, HasAWidthWhereAllScoresAreAlikeAndANarrowOneBetweenTheEnds) {
    const Interval halves = score_interval(std::vector<double>(30, 0.5));
    const Interval wilson = wilson_interval(240, 480);
    EXPECT_NEAR(halves.low, wilson.low, 1e-9);
    EXPECT_NEAR(halves.high, wilson.high, 1e-9);
    EXPECT_LT(halves.high - halves.low, wilson_interval(15, 30).high - wilson_interval(15, 30).low);
}

TEST(ScoreInterval, ZerosCountLikeOtherScores) {
    // One score that is a share moves the interval a little, and not from one method to another.
    std::vector<double> scores(30, 0.0);
    const Interval none = score_interval(scores);
    scores[0] = 0.01;
    const Interval hardly = score_interval(scores);
    EXPECT_EQ(none.low, 0);
    EXPECT_GT(none.high, 0.1);
    EXPECT_NEAR(hardly.high, none.high, 0.005);
}

// Shares as tasks give them: many zeros, some ones, something between.
TEST(ScoreInterval, HoldsTheTrueMeanAtLeastAsOftenAsItSays) {
    std::mt19937_64 random(11);
    std::uniform_real_distribution<double> uniform(0, 1);
    for (const double zeros : {0.05, 0.5, 0.9}) {
        for (const int n : {5, 30}) {
            int n_held = 0;
            constexpr int kRounds = 400;
            for (int round = 0; round < kRounds; ++round) {
                std::vector<double> scores(static_cast<size_t>(n));
                for (double & score : scores) { score = uniform(random) < zeros ? 0 : uniform(random); }
                const Interval interval = score_interval(scores);
                EXPECT_GE(interval.low, 0);
                EXPECT_LE(interval.high, 1);
                const double truth = (1 - zeros) / 2;
                n_held += interval.low <= truth && truth <= interval.high ? 1 : 0;
            }
            EXPECT_GE(n_held, 0.93 * kRounds) << zeros << " zeros, " << n << " samples";
        }
    }
}

TEST(MeanOfEstimates, StaysInRangeAndNeverShrinksToAPoint) {
    for (const double right : {0.0, 1.0}) {
        const std::vector<double> scores(30, right);
        const Estimate task{right, score_interval(scores)};
        const Estimate average = mean_of(std::vector<Estimate>(4, task));
        EXPECT_EQ(average.mean, right);
        EXPECT_GE(average.interval.low, 0);
        EXPECT_LE(average.interval.high, 1);
        // Four tasks alike: half as wide as one.
        EXPECT_NEAR(average.interval.high - average.interval.low, (task.interval.high - task.interval.low) / 2, 1e-9);
    }
}

}  // namespace
}  // namespace pith::interval_test
