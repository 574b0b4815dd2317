// significance_test.cpp - p-values against enumerations and numbers worked by hand.
#include "statistics/significance.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <vector>

namespace pith::significance_test {
namespace {

// 2·Σ C(n, k)/2^n by hand: of 6 discordant pairs 1 and 5 gives 2·(1 + 6)/64.
TEST(Significance, McNemarIsTheBinomialTailTwice) {
    EXPECT_NEAR(mcnemar_p(1, 5), 14.0 / 64, 1e-12);
    EXPECT_NEAR(mcnemar_p(0, 8), 2.0 / 256, 1e-12);
    EXPECT_EQ(mcnemar_p(3, 3), 1);
    EXPECT_EQ(mcnemar_p(0, 0), 1);
    EXPECT_EQ(mcnemar_p(2, 9), mcnemar_p(9, 2));
}

// Every sign pattern, recursively.
double enumerated(const std::vector<std::vector<double>> & strata) {
    std::vector<double> terms;
    double seen = 0;
    for (const auto & stratum : strata) {
        for (const double d : stratum) {
            terms.push_back(d / static_cast<double>(stratum.size()));
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

TEST(Significance, PermutationCountsTheSignPatternsThatReachAsFar) {
    const std::vector<std::vector<double>> one = {{0.5, 0.25, -0.1, 0.3, 0.05}};
    EXPECT_NEAR(permutation_p(one), enumerated(one), 1e-12);
    const std::vector<std::vector<double>> two = {{0.5, 0, -0.1}, {0.2, 0.2, 0.2, -0.3, 0}};
    EXPECT_NEAR(permutation_p(two), enumerated(two), 1e-12);
    EXPECT_EQ(permutation_p({{0, 0, 0}}), 1);
    EXPECT_EQ(permutation_p({{1, 1, 1, 1, 1, 1, 1, 1}}), 2.0 / 256);
}

TEST(Significance, ManyPairsAreDrawnAtRandomAndAgreeWithTheirLimit) {
    // Thirty +1 and ten −1: z = 20/√40, two-sided p = 0.0016 by the normal law; binomial 0.0022.
    std::vector<double> differences(40, 1.0);
    for (size_t i = 0; i < 10; ++i) { differences[i] = -1; }
    const double exact = mcnemar_p(10, 30);
    EXPECT_NEAR(exact, 0.0022, 0.0001);
    EXPECT_NEAR(permutation_p({differences}), exact, 0.0012);
    EXPECT_EQ(permutation_p({differences}), permutation_p({differences}));
}

TEST(Significance, RightAndWrongAreTestedByMcNemarAllElseByPermutation) {
    EXPECT_EQ(paired_test({1, 0, -1, 1}).name, "McNemar");
    EXPECT_EQ(paired_test({1, 0.5, -1, 1}).name, "permutation");
    EXPECT_NEAR(paired_test({1, 1, 1, 1, 1, 0}).p, 2.0 / 32, 1e-12);
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
