// interval_test.cpp - 95 % intervals against their definitions.
#include "eval/interval.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace pith {
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

TEST(ScoreInterval, IsWilsonsForRightAndWrongAndTheBootstrapsForShares) {
    EXPECT_EQ(score_interval(std::vector<double>{1, 0, 1, 1}), wilson_interval(3, 4));
    const std::vector<double> shares = {1, 0.25, 0.5, 1};
    EXPECT_EQ(score_interval(shares), bootstrap_interval(shares));
}

}  // namespace
}  // namespace pith
