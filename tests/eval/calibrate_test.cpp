// calibrate_test.cpp - what a head earns for a token, by hand; and a calibration of a random model.
#include "eval/calibrate.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "engine/tiny_model.h"

namespace pith {
namespace {

TEST(CreditHead, CopiesWhenItsStrongestEntryInTheNeedleIsTheNextToken) {
    //                                0     1     2     3     4     5
    const std::vector<float> a = {0.10F, 0.05F, 0.20F, 0.40F, 0.15F, 0.10F};
    const std::vector<int32_t> tokens = {7, 11, 12, 13, 14, 8};
    const PositionSpan needle{2, 5};
    EXPECT_EQ(credit_head(a, tokens, needle, 13).copy, 1);
    EXPECT_EQ(credit_head(a, tokens, needle, 12).copy, 0);              // in the needle, another token
    EXPECT_EQ(credit_head(a, tokens, PositionSpan{4, 6}, 13).copy, 0);  // the token, outside the needle
    // The three strongest are 3, 2 and 4: all in the needle.
    EXPECT_NEAR(credit_head(a, tokens, needle, 13).reason, 0.75, 1e-6);
    // The two strongest are 3 and 2; of the needle [4, 6) none.
    EXPECT_EQ(credit_head(a, tokens, PositionSpan{4, 6}, 13).reason, 0);
    // The one strongest is 3.
    EXPECT_NEAR(credit_head(a, tokens, PositionSpan{3, 4}, 0).reason, 0.4, 1e-6);
}

TEST(CreditHead, TakesTheNewerOfEquallyStrongEntries) {
    const std::vector<float> a = {0.25F, 0.25F, 0.25F, 0.25F};
    const std::vector<int32_t> tokens = {1, 2, 1, 2};
    EXPECT_EQ(credit_head(a, tokens, {3, 4}, 2).copy, 1);
    EXPECT_EQ(credit_head(a, tokens, {0, 2}, 2).copy, 0);
    EXPECT_EQ(credit_head(a, tokens, {0, 2}, 2).reason, 0);
}

class CalibrateHeads : public ::testing::Test {
protected:
    void SetUp() override {
        RandomModelSpec spec = testing::tiny_spec();
        const std::string path = testing::scratch_file("calibrate.gguf");
        ASSERT_TRUE(write_random_model(spec, path).ok());
        auto model = Model::load(path);
        ASSERT_TRUE(model.ok()) << model.status().message();
        model_ = std::make_unique<Model>(*model);
        auto tokenizer = Tokenizer::load(path);
        ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().message();
        tokenizer_ = std::make_unique<Tokenizer>(std::move(*tokenizer));
    }
    static CalibrateOptions options() {
        CalibrateOptions options;
        options.n_samples = 2;
        options.n_tokens = 700;
        options.n_threads = 1;
        return options;
    }
    std::unique_ptr<Model> model_;
    std::unique_ptr<Tokenizer> tokenizer_;
};

TEST_F(CalibrateHeads, GivesEveryHeadAShareFromZeroToOneAndTheSameAgain) {
    const auto done = calibrate_heads(*model_, *tokenizer_, options());
    ASSERT_TRUE(done.ok()) << done.status().message();
    ASSERT_EQ(done->heads.copy.size(), 12U);  // 3 layers of 4 heads
    ASSERT_EQ(done->heads.reason.size(), 12U);
    for (const double share : done->heads.copy) { EXPECT_TRUE(share >= 0 && share <= 1) << share; }
    for (const double share : done->heads.reason) { EXPECT_TRUE(share >= 0 && share <= 1) << share; }
    EXPECT_GT(*std::ranges::max_element(done->heads.reason), 0);
    EXPECT_GT(done->n_tokens, 2 * 5);
    EXPECT_EQ(done->probes.count, 2);
    EXPECT_EQ(done->probes.lengths, (std::vector<int>{700, 350}));
    const auto again = calibrate_heads(*model_, *tokenizer_, options());
    ASSERT_TRUE(again.ok());
    EXPECT_EQ(again->heads.copy, done->heads.copy);
    EXPECT_EQ(again->heads.reason, done->heads.reason);
}

// Probes of 200 tokens: this tokeniser needs more for a needle, its question and its answer, and 400 are enough.
TEST_F(CalibrateHeads, LeavesOutTheProbesThatDoNotFitAndCountsThem) {
    CalibrateOptions short_ones = options();
    short_ones.n_tokens = 800;
    short_ones.n_samples = 4;  // of 800, 400, 200 and 800 tokens
    const auto done = calibrate_heads(*model_, *tokenizer_, short_ones);
    ASSERT_TRUE(done.ok()) << done.status().message();
    EXPECT_EQ(done->probes.count, 3);
    EXPECT_EQ(done->probes.lengths, (std::vector<int>{800, 400}));
    ASSERT_EQ(done->left_out.size(), 1U);
    EXPECT_EQ(done->left_out[0].length, 200);
    EXPECT_EQ(done->left_out[0].count, 1);
    EXPECT_EQ(done->left_out[0].why.find("task 'single' needs at least "), 0U) << done->left_out[0].why;
    for (const double share : done->heads.reason) { EXPECT_TRUE(share >= 0 && share <= 1) << share; }

    short_ones.n_tokens = 200;
    const Status none = calibrate_heads(*model_, *tokenizer_, short_ones).status();
    EXPECT_EQ(none.code(), ErrorCode::kInvalidArgument);
    EXPECT_NE(none.message().find("task 'single' needs at least "), std::string::npos) << none.message();
    EXPECT_NE(none.message().find("--tokens is 200: raise it"), std::string::npos) << none.message();
}

TEST_F(CalibrateHeads, ReportsEachProbeAndStopsWhenAsked) {
    CalibrateOptions with_progress = options();
    std::vector<int> seen;
    with_progress.progress = [&seen](int n_done, int n_total) {
        EXPECT_EQ(n_total, 2);
        seen.push_back(n_done);
    };
    ASSERT_TRUE(calibrate_heads(*model_, *tokenizer_, with_progress).ok());
    EXPECT_EQ(seen, (std::vector<int>{1, 2}));
    const std::atomic<bool> cancel = true;
    CalibrateOptions cancelled = options();
    cancelled.cancel = &cancel;
    EXPECT_EQ(calibrate_heads(*model_, *tokenizer_, cancelled).status().code(), ErrorCode::kCancelled);
}

TEST_F(CalibrateHeads, RefusesProbesThatCannotBe) {
    CalibrateOptions none = options();
    none.n_samples = 0;
    EXPECT_EQ(calibrate_heads(*model_, *tokenizer_, none).status().code(), ErrorCode::kInvalidArgument);
    CalibrateOptions shortest = options();
    shortest.n_tokens = 100;
    const Status status = calibrate_heads(*model_, *tokenizer_, shortest).status();
    EXPECT_EQ(status.code(), ErrorCode::kInvalidArgument);
    EXPECT_NE(status.message().find("100 tokens"), std::string::npos) << status.message();
}

}  // namespace
}  // namespace pith
