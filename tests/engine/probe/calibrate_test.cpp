// calibrate_test.cpp - what a head earns for a token, by hand; and a calibration of a random model.
#include "engine/probe/calibrate.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "engine/policy_probe.h"
#include "engine/probe/built_in_task.h"
#include "engine/tiny_model.h"

namespace pith::calibrate_test {
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
        options.n_samples = 6;
        options.n_tokens = 1000;
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
    EXPECT_GT(done->n_tokens, 6 * 5);
    EXPECT_EQ(done->probes.count, 6);
    EXPECT_EQ(done->probes.lengths, (std::vector<int>{1000, 500}));
    const auto again = calibrate_heads(*model_, *tokenizer_, options());
    ASSERT_TRUE(again.ok());
    EXPECT_EQ(again->heads.copy, done->heads.copy);
    EXPECT_EQ(again->heads.reason, done->heads.reason);
}

// Each probe in a session of its own, its answer fed token by token, each time the newest query's attention looked at.
TEST_F(CalibrateHeads, CreditsWhatProbesReadOneByOneWould) {
    CalibrateOptions five = options();
    five.n_samples = 5;  // four of one text, one of the next
    const auto done = calibrate_heads(*model_, *tokenizer_, five);
    ASSERT_TRUE(done.ok()) << done.status().message();
    HeadImportance slow{std::vector<double>(12), std::vector<double>(12)};
    int64_t n_tokens = 0;
    for (int i = 0; i < 5; ++i) {
        const auto index = static_cast<uint64_t>(i / 4);
        const corpus::TaskOptions options{.n_tokens = index == 0 ? 1000 : 500,
                                          .haystack = index == 0 ? corpus::Haystack::kNoise : corpus::Haystack::kWorld,
                                          .seed = five.seed,
                                          .index = index};
        const auto tasks = corpus::make_multikey_tasks(options, count_tokens_of(*tokenizer_));
        ASSERT_TRUE(tasks.ok()) << tasks.status().message();
        const corpus::Task & task = (*tasks)[static_cast<size_t>(i % 4)];
        const auto encode = [this](const std::string & text) { return *tokenizer_->encode(text, true, false); };
        const std::vector<int32_t> all = encode(task.prompt() + task.completion);
        const auto shared_with = [&](const std::string & text) {
            const std::vector<int32_t> some = encode(text);
            return static_cast<int32_t>(std::ranges::mismatch(some, all).in1 - some.begin());
        };
        const PositionSpan needle{shared_with(task.context.substr(0, task.needles[0].begin)),
                                  shared_with(task.context.substr(0, task.needles[0].end))};
        const auto n_prompt = static_cast<size_t>(shared_with(task.prompt()));
        SessionOptions session_options;
        session_options.policy = "full";
        session_options.observe = {"tova"};
        session_options.n_threads = 1;
        auto session = model_->session(session_options);
        ASSERT_TRUE(session.ok());
        ASSERT_TRUE(session->prefill(std::span(all).first(n_prompt)).ok());
        for (size_t next = n_prompt; next < all.size(); ++next) {
            PolicyProbe look(*session);
            for (int layer = 0; layer < 3; ++layer) {
                const auto evidence = look.evidence(layer, {.last_query = true});
                ASSERT_TRUE(evidence.ok()) << evidence.status().message();
                for (int g = 0; g < 4; ++g) {
                    const HeadCredit earned =
                        credit_head(evidence->last_query.row(g), std::span(all).first(next), needle, all[next]);
                    slow.copy[static_cast<size_t>(4 * layer + g)] += earned.copy;
                    slow.reason[static_cast<size_t>(4 * layer + g)] += earned.reason;
                }
            }
            ++n_tokens;
            ASSERT_TRUE(session->append(all[next]).ok());
        }
    }
    EXPECT_EQ(done->n_tokens, n_tokens);
    // A random model's attention is nearly even: now and then the strongest of two equal ones is the other in the last bit.
    const double a_token = 1.5 / static_cast<double>(n_tokens);
    for (size_t i = 0; i < 12; ++i) {
        EXPECT_NEAR(done->heads.copy[i], slow.copy[i] / static_cast<double>(n_tokens), a_token) << i;
        EXPECT_NEAR(done->heads.reason[i], slow.reason[i] / static_cast<double>(n_tokens), 1e-3) << i;
        EXPECT_GT(done->heads.reason[i], 1e-3) << i;
    }
}

// Texts of 250 tokens: this tokeniser needs more for the needles, a question and its answer, and 500 are enough.
TEST_F(CalibrateHeads, LeavesOutTheProbesThatDoNotFitAndCountsThem) {
    CalibrateOptions short_ones = options();
    short_ones.n_samples = 14;  // of 1000, 500, 250 and 1000 tokens
    const auto done = calibrate_heads(*model_, *tokenizer_, short_ones);
    ASSERT_TRUE(done.ok()) << done.status().message();
    EXPECT_EQ(done->probes.count, 10);
    EXPECT_EQ(done->probes.lengths, (std::vector<int>{1000, 500}));
    ASSERT_EQ(done->left_out.size(), 1U);
    EXPECT_EQ(done->left_out[0].length, 250);
    EXPECT_EQ(done->left_out[0].count, 4);
    EXPECT_EQ(done->left_out[0].why.find("task 'multikey' needs at least "), 0U) << done->left_out[0].why;
    for (const double share : done->heads.reason) { EXPECT_TRUE(share >= 0 && share <= 1) << share; }

    short_ones.n_tokens = 200;
    const Status none = calibrate_heads(*model_, *tokenizer_, short_ones).status();
    EXPECT_EQ(none.code(), ErrorCode::kInvalidArgument);
    EXPECT_NE(none.message().find("task 'multikey' needs at least "), std::string::npos) << none.message();
    EXPECT_NE(none.message().find("n_tokens is 200: raise it"), std::string::npos) << none.message();
    EXPECT_EQ(none.item(), "n_tokens") << "an edge has a name of its own for it";
}

TEST_F(CalibrateHeads, ReportsHowFarItIsAndStopsWhenAsked) {
    CalibrateOptions with_progress = options();
    std::vector<int64_t> seen;
    int64_t most = 0;
    with_progress.progress = [&](int64_t n_done, int64_t n_total) {
        EXPECT_TRUE(most == 0 || most == n_total) << "known beforehand";
        most = n_total;
        seen.push_back(n_done);
    };
    ASSERT_TRUE(calibrate_heads(*model_, *tokenizer_, with_progress).ok());
    EXPECT_GT(seen.size(), 6U);
    EXPECT_TRUE(std::ranges::is_sorted(seen));
    EXPECT_EQ(seen.back(), most);
    EXPECT_LT(most, 6 * 1000) << "a text is read once for all its questions";
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
}  // namespace pith::calibrate_test
