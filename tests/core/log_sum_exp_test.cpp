// log_sum_exp_test.cpp - the sum is the formula's in f64, for every length around a vector's, and far apart logits are no
// trouble.
#include "core/log_sum_exp.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace pith::log_sum_exp_test {
namespace {

double by_the_formula(const std::vector<float> & logits, double shift) {
    double sum = 0;
    for (const float logit : logits) { sum += std::exp(logit - shift); }
    return shift + std::log(sum);
}

TEST(LogSumExp, IsTheFormulasAtEveryLength) {
    std::mt19937 random(3);
    std::normal_distribution<float> normal(0, 6);
    for (size_t n = 1; n < 70; ++n) {
        std::vector<float> logits(n);
        for (float & logit : logits) { logit = normal(random); }
        EXPECT_NEAR(log_sum_exp(logits), by_the_formula(logits, 0), 1e-6) << n;
    }
    std::vector<float> vocabulary(50'001);
    for (float & logit : vocabulary) { logit = normal(random); }
    EXPECT_NEAR(log_sum_exp(vocabulary), by_the_formula(vocabulary, 0), 1e-6);
}

TEST(LogSumExp, OverflowsAtNoHeightAndCountsTheImpossibleAsNothing) {
    EXPECT_NEAR(log_sum_exp(std::vector<float>(1000, 3e4F)), 3e4 + std::log(1000.0), 1e-6);
    EXPECT_NEAR(log_sum_exp(std::vector<float>(1000, -3e4F)), -3e4 + std::log(1000.0), 1e-6);
    std::vector<float> one_possible(40, -std::numeric_limits<float>::infinity());
    one_possible[35] = -7;
    EXPECT_NEAR(log_sum_exp(one_possible), -7, 1e-6);
}

}  // namespace
}  // namespace pith::log_sum_exp_test
