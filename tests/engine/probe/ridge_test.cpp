// ridge_test.cpp - the sums' solution against the normal equations written out, and what the penalty does.
#include "engine/probe/ridge.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace pith::ridge_test {
namespace {

constexpr int kFeatures = 5;
constexpr int kTargets = 2;

struct Samples {
    std::vector<float> x;  // [n][kFeatures]
    std::vector<float> y;  // [n][kTargets]
    int n = 0;
};

// y = weights · x + bias + noise; feature 1 is a hundred times as wide as the others, feature 3 never varies.
Samples make_samples(int n, float noise) {
    std::mt19937 random(7);
    std::normal_distribution<float> normal;
    Samples out;
    out.n = n;
    for (int i = 0; i < n; ++i) {
        std::vector<float> row;
        for (int f = 0; f < kFeatures; ++f) {
            row.push_back(f == 1 ? 100 * normal(random) : f == 3 ? 4.0F : normal(random) + 1);
        }
        out.y.push_back(2 * row[0] - 0.03F * row[1] + 0.5F + noise * normal(random));
        out.y.push_back(-row[2] + row[4] - 1.5F + noise * normal(random));
        out.x.insert(out.x.end(), row.begin(), row.end());
    }
    return out;
}

std::vector<float> products_of(const Samples & samples, int first, int n) {
    std::vector<float> products(kFeatures * kFeatures);
    for (int i = first; i < first + n; ++i) {
        for (int f = 0; f < kFeatures; ++f) {
            for (int g = 0; g < kFeatures; ++g) {
                products[static_cast<size_t>(f * kFeatures + g)] +=
                    samples.x[static_cast<size_t>(i * kFeatures + f)] * samples.x[static_cast<size_t>(i * kFeatures + g)];
            }
        }
    }
    return products;
}

RidgeSums sums_of(const Samples & samples, int n_a_time) {
    RidgeSums sums(kFeatures, kTargets);
    for (int first = 0; first < samples.n; first += n_a_time) {
        const int n = std::min(n_a_time, samples.n - first);
        const auto part = [&](const std::vector<float> & all, int width) {
            return std::span(all).subspan(static_cast<size_t>(first * width), static_cast<size_t>(n * width));
        };
        sums.add(part(samples.x, kFeatures), part(samples.y, kTargets), products_of(samples, first, n));
    }
    return sums;
}

TEST(Ridge, FindsWeightsAndBiasThatMadeTheTargets) {
    const auto fit = sums_of(make_samples(400, 0), 64).solve(1e-7);
    const std::vector<float> wanted = {2, -0.03F, 0, 0, 0, 0, 0, -1, 0, 1};
    ASSERT_EQ(fit.weights.size(), wanted.size());
    for (size_t i = 0; i < wanted.size(); ++i) { EXPECT_NEAR(fit.weights[i], wanted[i], 2e-3) << i; }
    EXPECT_NEAR(fit.bias[0], 0.5, 5e-3);
    EXPECT_NEAR(fit.bias[1], -1.5, 5e-3);
}

TEST(Ridge, IsTheSameHoweverTheSamplesWereCutIntoParts) {
    const Samples samples = make_samples(200, 0.3F);
    const auto whole = sums_of(samples, 200).solve(0.01);
    const auto parts = sums_of(samples, 7).solve(0.01);
    for (size_t i = 0; i < whole.weights.size(); ++i) { EXPECT_NEAR(whole.weights[i], parts.weights[i], 1e-3) << i; }
}

// The minimum: no small step in any weight makes the penalised error smaller.
TEST(Ridge, MinimisesThePenalisedError) {
    const Samples samples = make_samples(150, 0.5F);
    constexpr double kLambda = 0.2;
    const auto fit = sums_of(samples, 50).solve(kLambda);
    const auto error_of = [&](const std::vector<double> & w) {
        double mean[kFeatures] = {};
        double square[kFeatures] = {};
        double error = 0;
        for (int i = 0; i < samples.n; ++i) {
            double said = fit.bias[0];
            for (int f = 0; f < kFeatures; ++f) {
                const double x = samples.x[static_cast<size_t>(i * kFeatures + f)];
                mean[f] += x / samples.n;
                square[f] += x * x / samples.n;
                said += w[static_cast<size_t>(f)] * x;
            }
            const double missed = samples.y[static_cast<size_t>(i * kTargets)] - said;
            error += missed * missed / samples.n;
        }
        for (int f = 0; f < kFeatures; ++f) {
            error += kLambda * (square[f] - mean[f] * mean[f]) * w[static_cast<size_t>(f)] * w[static_cast<size_t>(f)];
        }
        return error;
    };
    std::vector<double> weights(fit.weights.begin(), fit.weights.begin() + kFeatures);
    const double least = error_of(weights);
    for (const size_t f : {size_t{0}, size_t{1}, size_t{2}, size_t{4}}) {
        for (const double sign : {-1.0, 1.0}) {
            // The bias goes along with the mean, so a step is one around it.
            std::vector<double> moved = weights;
            moved[f] += sign * (f == 1 ? 1e-3 : 0.1);
            EXPECT_GT(error_of(moved), least) << f << " " << sign;
        }
    }
    EXPECT_LT(std::abs(fit.weights[0]), 2) << "the penalty draws weights to 0";
}

TEST(Ridge, GivesAFeatureThatNeverVariedNoWeight) {
    const auto fit = sums_of(make_samples(100, 0.1F), 100).solve(0.01);
    EXPECT_EQ(fit.weights[3], 0);
    EXPECT_EQ(fit.weights[kFeatures + 3], 0);
}

}  // namespace
}  // namespace pith::ridge_test
