// significance_test.cpp - the paired test against enumerations and numbers worked by hand; its interval against the test
// itself.
#include "statistics/significance.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>
#include <vector>

namespace pith::significance_test {
namespace {

using Strata = std::vector<std::vector<double>>;

// Two-sided p that all differences are `shift` but for chance: every sign pattern, recursively, from the definition.
double enumerated(const Strata & strata, double shift = 0) {
    std::vector<double> terms;
    double seen = 0;
    for (const auto & stratum : strata) {
        for (const double d : stratum) {
            terms.push_back((d - shift) / static_cast<double>(stratum.size()));
            seen += terms.back();
        }
    }
    int hits = 0;
    const std::function<void(size_t, double)> walk = [&](size_t i, double sum) {
        if (i == terms.size()) {
            hits += std::abs(sum) >= std::abs(seen) - 1e-12 ? 1 : 0;
            return;
        }
        walk(i + 1, sum + terms[i]);
        walk(i + 1, sum - terms[i]);
    };
    walk(0, 0);
    return hits / std::pow(2.0, static_cast<double>(terms.size()));
}

bool leaves_out_zero(const Interval & interval) {
    return interval.low > 0 || interval.high < 0;
}

// Differences as tasks give them: right or wrong, shares, or anything.
double draw(std::mt19937_64 & random, int kind, double lean) {
    std::uniform_real_distribution<double> uniform(0, 1);
    const auto score = [&](double right) {
        if (kind == 0) { return uniform(random) < right ? 1.0 : 0.0; }
        if (kind == 1) { return std::floor(4 * uniform(random) * right + 0.5) / 4; }
        return uniform(random) * right;
    };
    const double first = score(0.5);
    return score(std::min(1.0, 0.5 + lean)) - first;
}

TEST(PairedTest, CountsTheSignPatternsThatReachAsFar) {
    const Strata one = {{0.5, 0.25, -0.1, 0.3, 0.05}};
    EXPECT_NEAR(paired_test(one).p, enumerated(one), 1e-12);
    const Strata two = {{0.5, 0, -0.1}, {0.2, 0.2, 0.2, -0.3, 0}};
    EXPECT_NEAR(paired_test(two).p, enumerated(two), 1e-12);
    EXPECT_NEAR(paired_test(two).difference, (0.4 / 3 + 0.3 / 5) / 2, 1e-12);
    EXPECT_EQ(paired_test({{1, 1, 1, 1, 1, 1, 1, 1}}).p, 2.0 / 256);
    EXPECT_TRUE(paired_test(two).is_exact);
}

// 2·Σ C(n, k)/2^n by hand: of 6 discordant pairs 1 and 5 gives 2·(1 + 6)/64; pairs alike on both sides change nothing.
TEST(PairedTest, IsMcNemarsExactTestWhereAnswersAreRightOrWrong) {
    EXPECT_NEAR(paired_test({{1, 1, 1, 1, 1, -1}}).p, 14.0 / 64, 1e-12);
    EXPECT_NEAR(paired_test({{1, 1, 0, 1, 1, 0, 1, 0, -1}}).p, 14.0 / 64, 1e-12);
    EXPECT_EQ(paired_test({{1, 1, -1, -1}}).p, 1);
}

// Just inside an end the slow test does not reject, just outside it does.
TEST(PairedTest, TheIntervalHoldsTheShiftsThatTheEnumeratedTestDoesNotReject) {
    std::mt19937_64 random(5);
    for (int kind = 0; kind < 3; ++kind) {
        for (int round = 0; round < 6; ++round) {
            Strata strata(3);
            for (size_t t = 0; t < strata.size(); ++t) {
                for (size_t i = 0; i < 2 + t; ++i) { strata[t].push_back(draw(random, kind, 0.3)); }
            }
            const PairedTest test = paired_test(strata);
            constexpr double kStep = 1e-7;
            EXPECT_GE(enumerated(strata, test.interval.low), 0.05) << kind << ' ' << round;
            EXPECT_LT(enumerated(strata, test.interval.low - kStep), 0.05) << kind << ' ' << round;
            EXPECT_GE(enumerated(strata, test.interval.high), 0.05) << kind << ' ' << round;
            EXPECT_LT(enumerated(strata, test.interval.high + kStep), 0.05) << kind << ' ' << round;
        }
    }
}

TEST(PairedTest, IsSignificantExactlyWhereItsIntervalLeavesOutZero) {
    std::mt19937_64 random(6);
    int n_significant = 0;
    int n_rounds = 0;
    for (int kind = 0; kind < 3; ++kind) {
        for (const size_t n : {4, 6, 12, 25, 90}) {
            for (const double lean : {0.0, 0.15, 0.3}) {
                for (int round = 0; round < 4; ++round, ++n_rounds) {
                    Strata strata(2);
                    for (size_t i = 0; i < n; ++i) { strata[i % 2].push_back(draw(random, kind, lean)); }
                    const PairedTest test = paired_test(strata);
                    EXPECT_EQ(test.p < 0.05, leaves_out_zero(test.interval)) << kind << ' ' << n << ' ' << test.p;
                    EXPECT_LE(test.interval.low, test.difference + 1e-12);
                    EXPECT_GE(test.interval.high, test.difference - 1e-12);
                    n_significant += test.p < 0.05 ? 1 : 0;
                }
            }
        }
    }
    EXPECT_GT(n_significant, n_rounds / 10);  // both happen
    EXPECT_LT(n_significant, n_rounds * 9 / 10);
}

TEST(PairedTest, TwentyPairsAlikeArePointAndOne) {
    const PairedTest alike = paired_test({std::vector<double>(20, 0.0)});
    EXPECT_EQ(alike.p, 1);
    EXPECT_EQ(alike.interval, (Interval{0, 0}));
    const PairedTest better = paired_test({std::vector<double>(20, 0.25)});
    EXPECT_LT(better.p, 0.001);
    EXPECT_NEAR(better.interval.low, 0.25, 1e-12);
    EXPECT_NEAR(better.interval.high, 0.25, 1e-12);
}

TEST(PairedTest, FivePairsCanShowNothingAndSixCan) {
    EXPECT_TRUE(std::isinf(paired_test({{1, 1, 1, 1, 1}}).interval.low));
    EXPECT_TRUE(std::isinf(paired_test({{1}}).interval.high));
    EXPECT_EQ(paired_test({{1, 1, 1, 1, 1, 1}}).interval, (Interval{1, 1}));
    EXPECT_NEAR(paired_test({{1, 1, 1, 1, 1, 1}}).p, 2.0 / 64, 1e-12);
}

TEST(PairedTest, StrataWeighAlikeHoweverManyPairsTheyHave) {
    const PairedTest test = paired_test({{1, 1}, {}, std::vector<double>(10, 0.0)});
    EXPECT_NEAR(test.difference, 0.5, 1e-12);
}

TEST(PairedTest, ManyPairsAreDrawnAtRandomAndAgreeWithTheirLimit) {
    // Thirty +1 and ten −1: binomial, 2·Σ_{k<=10} C(40, k)/2^40 = 0.0022.
    std::vector<double> differences(40, 1.0);
    for (size_t i = 0; i < 10; ++i) { differences[i] = -1; }
    const PairedTest test = paired_test({differences});
    EXPECT_FALSE(test.is_exact);
    EXPECT_NEAR(test.p, 0.0022, 0.0012);
    EXPECT_EQ(test.p, paired_test({differences}).p);
    // The same by enumeration and by drawing: 17 pairs, of which one is all but nothing.
    Strata sixteen = {{0.5, 0.25, -0.1, 0.3, 0.05, -0.4, 0.2, 0.1, 0.6, -0.2, 0.15, 0.35, -0.3, 0.45, 0.1, 0.2}};
    const PairedTest exact = paired_test(sixteen);
    Strata seventeen = {sixteen[0], {}};
    seventeen[0].push_back(exact.difference);
    const PairedTest drawn = paired_test(seventeen);
    EXPECT_TRUE(exact.is_exact);
    EXPECT_FALSE(drawn.is_exact);
    EXPECT_NEAR(drawn.p, enumerated(seventeen), 0.006);
    EXPECT_NEAR(drawn.interval.low, exact.interval.low, 0.03);
    EXPECT_NEAR(drawn.interval.high, exact.interval.high, 0.03);
}

// Scores like RULER's: eleven tasks of twelve samples, right, wrong and between, one side better by a known amount.
TEST(PairedTest, TheIntervalHoldsTheTrueDifferenceAboutAsOftenAsItSays) {
    std::mt19937_64 random(7);
    std::uniform_real_distribution<double> uniform(0, 1);
    int n_held = 0;
    constexpr int kRounds = 150;
    for (int round = 0; round < kRounds; ++round) {
        Strata strata(11);
        for (size_t t = 0; t < strata.size(); ++t) {
            for (int i = 0; i < 12; ++i) {
                // A tenth of the answers change, two thirds of these for the better: 0.1·(2/3 − 1/3).
                const double changed = uniform(random) < 0.1 ? (uniform(random) < 2.0 / 3 ? 1 : -1) : 0;
                strata[t].push_back(t % 2 == 0 ? changed : changed * (0.5 + uniform(random)));
            }
        }
        const Interval interval = paired_test(strata).interval;
        n_held += interval.low <= 0.1 / 3 && 0.1 / 3 <= interval.high ? 1 : 0;
    }
    EXPECT_GE(n_held, 0.9 * kRounds);
    EXPECT_LE(n_held, 0.995 * kRounds);
}

TEST(Significance, WhatIsNoNumberSaysNothing) {
    for (const double none : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
        const PairedTest test = paired_test({std::vector<double>(30, 1.0), {1.0, none}});
        EXPECT_EQ(test.p, 1);
        EXPECT_TRUE(std::isinf(test.interval.low) && std::isinf(test.interval.high));
    }
}

// 0.01·3, 0.02·2, 0.9·1, in that order, never falling.
TEST(Significance, HolmStepsDown) {
    const std::vector<double> p = {0.02, 0.9, 0.01};
    const auto adjusted = holm(p);
    EXPECT_NEAR(adjusted[2], 0.03, 1e-12);
    EXPECT_NEAR(adjusted[0], 0.04, 1e-12);
    EXPECT_NEAR(adjusted[1], 0.9, 1e-12);
    EXPECT_NEAR(holm(std::vector<double>{0.02, 0.021})[1], 0.04, 1e-12);
}

}  // namespace
}  // namespace pith::significance_test
