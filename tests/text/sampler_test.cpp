// sampler_test.cpp - drawing from logits without a llama_context.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>

#include "pith/text.h"
#include "text/tiny_vocabulary.h"

namespace pith::sampler_test {
namespace {

Sampler make(const SamplerOptions & options) {
    auto sampler = Sampler::make(options);
    EXPECT_TRUE(sampler.ok()) << sampler.status().message();
    return std::move(*sampler);
}

TEST(Sampler, TakesTheLikeliestAtTemperatureZero) {
    Sampler sampler = make({.temperature = 0});
    EXPECT_EQ(*sampler.sample(std::vector<float>{0.1F, 3.0F, -1.0F, 2.9F}), 1);
    EXPECT_EQ(*sampler.sample(std::vector<float>{5.0F, 3.0F, -1.0F, 2.9F}), 0);
}

// Greedy asks for no candidates; a bias that changes nothing makes the chain look at them.
TEST(Sampler, TakesAtTemperatureZeroWhatTheWholeChainWould) {
    Sampler direct = make({.temperature = 0});
    Sampler chain = make({.temperature = 0, .logit_bias = {{0, 0.0F}}});
    std::mt19937 random(5);
    for (int round = 0; round < 200; ++round) {
        std::vector<float> logits(40);
        for (float & logit : logits) { logit = static_cast<float>(static_cast<int>(random() % 9) - 4); }  // many are equal
        if (round % 10 == 0) { logits[random() % 40] = -INFINITY; }
        EXPECT_EQ(*direct.sample(logits), *chain.sample(logits));
    }
}

TEST(Sampler, DrawsAsOftenAsTheProbabilitiesSay) {
    Sampler sampler = make({.temperature = 1, .top_k = 0, .top_p = 1, .min_p = 0, .seed = 7});
    const std::vector<float> logits = {std::log(0.5F), std::log(0.3F), std::log(0.2F)};
    std::map<int32_t, int> counts;
    constexpr int kDraws = 4000;
    for (int i = 0; i < kDraws; ++i) { ++counts[*sampler.sample(logits)]; }
    EXPECT_NEAR(counts[0], 0.5 * kDraws, 150);
    EXPECT_NEAR(counts[1], 0.3 * kDraws, 150);
    EXPECT_NEAR(counts[2], 0.2 * kDraws, 150);
}

TEST(Sampler, SaysTheSameForTheSameSeed) {
    std::vector<float> logits(100);
    for (size_t i = 0; i < logits.size(); ++i) { logits[i] = std::sin(static_cast<float>(i)); }
    Sampler first = make({.seed = 42});
    Sampler second = make({.seed = 42});
    for (int i = 0; i < 50; ++i) { EXPECT_EQ(*first.sample(logits), *second.sample(logits)); }
}

TEST(Sampler, DrawsOnlyFromTheTopK) {
    Sampler sampler = make({.temperature = 5, .top_k = 2, .top_p = 1, .min_p = 0, .seed = 3});
    const std::vector<float> logits = {1.0F, 0.9F, 0.8F, 0.7F};
    for (int i = 0; i < 200; ++i) { EXPECT_LT(*sampler.sample(logits), 2); }
}

TEST(Sampler, PenalisesWhatItSaidAndForgetsItOnReset) {
    Sampler sampler = make({.temperature = 0, .repeat_penalty = 2});
    const std::vector<float> logits = {3.0F, 2.0F, 0.0F};
    EXPECT_EQ(*sampler.sample(logits), 0);
    EXPECT_EQ(*sampler.sample(logits), 1);  // 3 / 2 < 2
    sampler.reset();
    EXPECT_EQ(*sampler.sample(logits), 0);
}

// Gemma 4's files list the marks of images and sound.
TEST(Sampler, NeverSaysWhatTheFileSuppresses) {
    const testing::TempFolder folder;
    const std::vector<int32_t> suppressed = {300, 301};
    testing::GgufEdit edit;
    edit.metadata = [&](gguf_context * gguf) {
        gguf_set_arr_data(gguf, "tokenizer.ggml.suppress_tokens", GGUF_TYPE_INT32, suppressed.data(), suppressed.size());
    };
    ASSERT_TRUE(testing::edit_gguf(testing::write_tiny(folder), folder.file("suppresses.gguf"), edit));
    const auto tokenizer = Tokenizer::load(folder.file("suppresses.gguf"));
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().message();
    std::vector<float> logits(static_cast<size_t>(tokenizer->n_vocab()));
    logits[300] = 9.0F;
    logits[301] = 8.0F;
    logits[302] = 7.0F;
    for (const SamplerOptions & options : {SamplerOptions{.temperature = 0}, SamplerOptions{.top_k = 2, .seed = 5},
                                           SamplerOptions{.temperature = 0, .logit_bias = {{300, 5.0F}}}}) {
        auto sampler = Sampler::make(options, &*tokenizer);
        ASSERT_TRUE(sampler.ok()) << sampler.status().message();
        for (int i = 0; i < 20; ++i) {
            const int32_t token = *sampler->sample(logits);
            EXPECT_TRUE(token != 300 && token != 301) << token;
        }
    }
    EXPECT_EQ(*make({.temperature = 0}).sample(logits), 300);
}

TEST(Sampler, RefusesOptionsOutsideTheirRanges) {
    for (const SamplerOptions & options :
         {SamplerOptions{.temperature = -1}, SamplerOptions{.top_p = 1.5F}, SamplerOptions{.min_p = -0.1F},
          SamplerOptions{.repeat_penalty = 0}, SamplerOptions{.temperature = NAN}}) {
        EXPECT_EQ(Sampler::make(options).status().code(), ErrorCode::kInvalidArgument);
    }
}

TEST(Sampler, LooksBackOnThePrompt) {
    const std::vector<float> logits = {3.0F, 2.0F, 0.0F};
    for (const SamplerOptions & options :
         {SamplerOptions{.temperature = 0, .repeat_penalty = 2}, SamplerOptions{.temperature = 0, .presence_penalty = 1.5F},
          SamplerOptions{.temperature = 0, .frequency_penalty = 1.5F}}) {
        Sampler before = make(options);
        before.accept(0);
        EXPECT_EQ(*before.sample(logits), 1);
        Sampler after = make(options);
        EXPECT_EQ(*after.sample(logits), 0);
        after.reset();
        after.accept(0);
        EXPECT_EQ(*after.sample(logits), 1) << "with a chain made already";
    }
}

TEST(Sampler, AddsTheBiasToItsToken) {
    const std::vector<float> logits = {3.0F, 2.0F, 0.0F};
    EXPECT_EQ(*make({.temperature = 0, .logit_bias = {{2, 4.0F}}}).sample(logits), 2);
    EXPECT_EQ(*make({.temperature = 0, .logit_bias = {{0, -INFINITY}}}).sample(logits), 1);
}

TEST(Sampler, XtcTakesTheLikeliestOutAlsoAtTemperatureZero) {
    const std::vector<float> logits = {3.0F, 2.9F, 0.0F};
    EXPECT_EQ(*make({.temperature = 0, .xtc_probability = 1, .xtc_threshold = 0.1F, .seed = 1}).sample(logits), 1);
}

TEST(Sampler, WhatNeedsTheVocabularyIsRefusedWithoutIt) {
    EXPECT_NE(Sampler::make({.dry_multiplier = 0.8F}).status().message().find("DRY needs"), std::string::npos);
    EXPECT_NE(Sampler::make({.grammar = "root ::= \"a\""}).status().message().find("grammar needs"), std::string::npos);
    testing::TempFolder folder;
    const Tokenizer tokenizer = Tokenizer::load(testing::write_tiny(folder)).value();
    const Status bad = Sampler::make({.grammar = "root ::= nothing"}, &tokenizer).status();
    EXPECT_EQ(bad.code(), ErrorCode::kInvalidArgument);
    EXPECT_NE(bad.message().find("the grammar cannot be read"), std::string::npos);
    EXPECT_EQ(Sampler::make({.logit_bias = {{100000, 1.0F}}}, &tokenizer).status().code(), ErrorCode::kInvalidArgument);
}

TEST(LogProbabilities, AreThoseOfTheSoftmaxTheLikeliestFirst) {
    const std::vector<float> logits = {std::log(0.2F), std::log(0.5F), std::log(0.3F)};
    const auto top = top_log_probabilities(logits, 2);
    ASSERT_EQ(top.size(), 2U);
    EXPECT_EQ(top[0].first, 1);
    EXPECT_NEAR(top[0].second, std::log(0.5), 1e-6);
    EXPECT_EQ(top[1].first, 2);
    EXPECT_NEAR(log_probability(logits, 0), std::log(0.2), 1e-6);
    EXPECT_EQ(top_log_probabilities(logits, 10).size(), 3U);
    EXPECT_TRUE(top_log_probabilities({}, 3).empty());
}

}  // namespace
}  // namespace pith::sampler_test
