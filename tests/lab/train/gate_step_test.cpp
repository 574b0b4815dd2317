// gate_step_test.cpp - the threshold, its straight-through gradient and the eviction loss, against their definitions.
#include "train/graph/gate_step.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tasks/random.h"
#include "train/kernels/masked_row_ops.h"

namespace pith::train::gate_step_test {
namespace {

constexpr int kTokens = 7, kHeads = 2;

GateStep make_step() {
    GateStep step;
    step.config.tau = 0.6F;
    step.config.gamma = 0.5F;
    step.beta = 0.45F;
    step.scale = 3.0F;
    step.n_kv_heads = kHeads;
    step.n_tokens = kTokens;
    step.n_gated = {7, 4, 0};
    step.layers.resize(2);
    return step;
}

std::vector<float> random_numbers(size_t n, uint64_t seed) {
    corpus::Random random(seed);
    std::vector<float> out;
    for (size_t i = 0; i < n; ++i) { out.push_back(static_cast<float>(4 * random.uniform() - 2)); }
    return out;
}

double sigmoid(double x) {
    return 1.0 / (1.0 + std::exp(-x));
}

TEST(GateStep, FlagsAreTheThresholdedProbabilitiesAndTokensThatAreNotGatedAreKept) {
    GateStep step = make_step();
    const std::vector<float> logits = random_numbers(3 * kTokens * kHeads, 1);
    std::vector<float> flags(logits.size(), -1.0F);
    step.threshold(1, logits.data(), flags.data());
    double kept = 0;
    for (size_t i = 0; i < flags.size(); ++i) {
        const size_t b = i / (kTokens * kHeads);
        const bool gated = static_cast<int>(i / kHeads % kTokens) < step.n_gated[b];
        const double expected = !gated || sigmoid(static_cast<double>(logits[i]) + 0.5) > 0.6 ? 1 : 0;
        EXPECT_EQ(flags[i], static_cast<float>(expected)) << i;
        kept += gated ? expected : 0;
    }
    EXPECT_EQ(step.layers[1].kept, kept);
    EXPECT_EQ(step.n_flags(), 11 * kHeads);
}

// Straight through: the loss's slope at the flag counts as its slope at the probability. The eviction loss is a function of the
// probabilities themselves.
TEST(GateStep, GradientIsThatOfTheProbabilityPlusTheEvictionLosses) {
    GateStep step = make_step();
    const std::vector<float> logits = random_numbers(3 * kTokens * kHeads, 2);
    const std::vector<float> d_flags = random_numbers(logits.size(), 3);
    std::vector<float> flags(logits.size()), d_logits(logits.size(), -1.0F);
    step.threshold(0, logits.data(), flags.data());
    step.threshold(1, logits.data(), flags.data());
    step.back(0, logits.data(), d_flags.data(), d_logits.data());
    const auto eviction = [&](const std::vector<double> & x) {
        double loss = 0;
        for (size_t b = 0; b < 3; ++b) {
            double sum = 0;
            const size_t n = static_cast<size_t>(step.n_gated[b]) * kHeads;
            for (size_t i = 0; i < n; ++i) { sum += sigmoid(x[b * kTokens * kHeads + i] + 0.5); }
            if (n > 0) { loss += std::max(0.0, sum / static_cast<double>(n) - 0.45F); }
        }
        return loss;
    };
    std::vector<double> x(logits.begin(), logits.end());
    EXPECT_NEAR(step.eviction_loss(), 2 * eviction(x), 1e-6);  // two layers
    EXPECT_GT(eviction(x), 0);
    for (size_t i = 0; i < x.size(); ++i) {
        const size_t b = i / (kTokens * kHeads);
        if (static_cast<int>(i / kHeads % kTokens) >= step.n_gated[b]) {
            EXPECT_EQ(d_logits[i], 0.0F) << i;
            continue;
        }
        constexpr double kStep = 1e-5;
        const double kept = x[i];
        const double slope_p = (sigmoid(kept + 0.5 + kStep) - sigmoid(kept + 0.5 - kStep)) / (2 * kStep);
        x[i] = kept + kStep;
        const double above = eviction(x);
        x[i] = kept - kStep;
        const double below = eviction(x);
        x[i] = kept;
        EXPECT_NEAR(d_logits[i], d_flags[i] * slope_p + 3.0 * (above - below) / (2 * kStep), 1e-6) << i;
    }
}

TEST(GateStep, RetentionUnderBetaIsNotPushedFurther) {
    GateStep step = make_step();
    step.n_gated = {7};
    const std::vector<float> logits(kTokens * kHeads, -3.0F), d_flags(kTokens * kHeads, 0.0F);
    std::vector<float> flags(logits.size()), d_logits(logits.size(), -1.0F);
    step.threshold(0, logits.data(), flags.data());
    step.back(0, logits.data(), d_flags.data(), d_logits.data());
    for (const float d : d_logits) { EXPECT_EQ(d, 0.0F); }
}

// share · (v - out) is the difference that a key's flag makes, even for a key far above all others or one that has all weight.
TEST(MaskedSoftmax, ShareIsTheDifferenceThatAFlagMakes) {
    corpus::Random random(5);
    for (const size_t n : {1U, 5U, 16U, 37U}) {
        for (const float spread : {1.0F, 30.0F}) {
            std::vector<float> scores, mask, values;
            for (size_t i = 0; i < n; ++i) {
                scores.push_back(spread * static_cast<float>(random.uniform() - 0.5));
                mask.push_back(i + 1 == n || random.chance(0.5) ? 1.0F : 0.0F);
                values.push_back(static_cast<float>(random.uniform() - 0.5));
            }
            constexpr double kScale = 0.7;
            const auto out_of = [&](size_t changed, double flag) {
                double total = 0, sum = 0;
                for (size_t i = 0; i < n; ++i) {
                    const double e = (i == changed ? flag : static_cast<double>(mask[i])) * std::exp(kScale * scores[i]);
                    total += e;
                    sum += e * values[i];
                }
                return sum / total;
            };
            std::vector<float> row = scores, share(n, -1.0F);
            row.resize(n + 3, 9.0F);
            masked_softmax_row(row.data(), mask.data(), share.data(), static_cast<int64_t>(n), static_cast<int64_t>(n + 3),
                               0.7F);
            double out = 0;
            for (size_t i = 0; i < n; ++i) {
                if (mask[i] == 0.0F) { EXPECT_EQ(row[i], 0.0F); }
                out += static_cast<double>(row[i]) * values[i];
            }
            EXPECT_NEAR(out, out_of(n, 0), 1e-6);
            EXPECT_EQ(row[n], 0.0F);
            EXPECT_EQ(row[n + 2], 0.0F);
            for (size_t i = 0; i + 1 < n; ++i) {  // the last key, a query's own, has no flag
                const double expected = out_of(i, 1) - out_of(i, 0);
                EXPECT_NEAR(share[i] * (values[i] - out), expected, 2e-3 * std::fabs(expected) + 1e-5) << i << " of " << n;
            }
        }
    }
}

}  // namespace
}  // namespace pith::train::gate_step_test
