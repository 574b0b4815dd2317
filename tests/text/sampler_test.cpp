// sampler_test.cpp - drawing from logits without a llama_context.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "pith/text.h"

namespace pith {
namespace {

Sampler make(const SamplerOptions & options) {
    auto sampler = Sampler::make(options);
    EXPECT_TRUE(sampler.ok()) << sampler.status().message();
    return std::move(*sampler);
}

TEST(Sampler, TakesTheLikeliestAtTemperatureZero) {
    Sampler sampler = make({.temperature = 0});
    EXPECT_EQ(sampler.sample(std::vector<float>{0.1F, 3.0F, -1.0F, 2.9F}), 1);
    EXPECT_EQ(sampler.sample(std::vector<float>{5.0F, 3.0F, -1.0F, 2.9F}), 0);
}

TEST(Sampler, DrawsAsOftenAsTheProbabilitiesSay) {
    Sampler sampler = make({.temperature = 1, .top_k = 0, .top_p = 1, .min_p = 0, .seed = 7});
    const std::vector<float> logits = {std::log(0.5F), std::log(0.3F), std::log(0.2F)};
    std::map<int32_t, int> counts;
    constexpr int kDraws = 4000;
    for (int i = 0; i < kDraws; ++i) { ++counts[sampler.sample(logits)]; }
    EXPECT_NEAR(counts[0], 0.5 * kDraws, 150);
    EXPECT_NEAR(counts[1], 0.3 * kDraws, 150);
    EXPECT_NEAR(counts[2], 0.2 * kDraws, 150);
}

TEST(Sampler, SaysTheSameForTheSameSeed) {
    std::vector<float> logits(100);
    for (size_t i = 0; i < logits.size(); ++i) { logits[i] = std::sin(static_cast<float>(i)); }
    Sampler first = make({.seed = 42});
    Sampler second = make({.seed = 42});
    for (int i = 0; i < 50; ++i) { EXPECT_EQ(first.sample(logits), second.sample(logits)); }
}

TEST(Sampler, DrawsOnlyFromTheTopK) {
    Sampler sampler = make({.temperature = 5, .top_k = 2, .top_p = 1, .min_p = 0, .seed = 3});
    const std::vector<float> logits = {1.0F, 0.9F, 0.8F, 0.7F};
    for (int i = 0; i < 200; ++i) { EXPECT_LT(sampler.sample(logits), 2); }
}

TEST(Sampler, PenalisesWhatItSaidAndForgetsItOnReset) {
    Sampler sampler = make({.temperature = 0, .repeat_penalty = 2});
    const std::vector<float> logits = {3.0F, 2.0F, 0.0F};
    EXPECT_EQ(sampler.sample(logits), 0);
    EXPECT_EQ(sampler.sample(logits), 1);  // 3 / 2 < 2
    sampler.reset();
    EXPECT_EQ(sampler.sample(logits), 0);
}

TEST(Sampler, RefusesOptionsOutsideTheirRanges) {
    for (const SamplerOptions & options :
         {SamplerOptions{.temperature = -1}, SamplerOptions{.top_p = 1.5F}, SamplerOptions{.min_p = -0.1F},
          SamplerOptions{.repeat_penalty = 0}, SamplerOptions{.temperature = NAN}}) {
        EXPECT_EQ(Sampler::make(options).status().code(), ErrorCode::kInvalidArgument);
    }
}

}  // namespace
}  // namespace pith
