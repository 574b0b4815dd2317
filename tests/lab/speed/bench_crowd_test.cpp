// bench_crowd_test.cpp - what `pith bench --crowd` and `--endless` measure, on a model of a few thousand parameters.
#include "speed/bench_crowd.h"

#include <gtest/gtest.h>

#include "engine/tiny_model.h"
#include "speed/bench_endless.h"

namespace pith::bench_crowd_test {
namespace {

SessionOptions small_budget() {
    SessionOptions options;
    options.budget = 64;
    options.chunk = 48;
    options.evict_every = 32;
    options.n_threads = 1;
    return options;
}

TEST(BenchCrowd, AllChatsLiveAndHaveSeenTheirTokens) {
    const auto model = testing::tiny_model(testing::tiny_spec());
    ASSERT_TRUE(model.ok()) << model.status().message();
    CrowdOptions options;
    options.session = small_budget();
    options.policies = {"snapkv:window=8"};
    options.n_chats = 24;  // of which at most eleven have rows in the first step
    options.n_prefix = 400;
    options.n_tail = 100;
    options.n_generate = 40;
    const auto report = measure_crowd(*model, options);
    ASSERT_TRUE(report.ok()) << report.status().message();
    EXPECT_EQ(report->ledger.n_running, 24);
    EXPECT_GE(report->n_tokens, 400 + 100 + 40);
    const size_t entry = size_t{2} * 32 * 2;  // K and V in f16
    EXPECT_GE(report->kv_full_bytes, size_t{24} * 540 * 3 * 2 * entry);
    EXPECT_GE(report->n_forks, 8);
    EXPECT_EQ(report->fork_growth, 0);
    EXPECT_LT(report->ledger.kv_allocated_bytes, report->kv_full_bytes);
    EXPECT_GT(report->decode_tps, 0);
}

// The chats answer between its units: each of its steps gives each of them a token.
TEST(BenchCrowd, APromptInOneShotIsReadBesideTheAnswers) {
    const auto model = testing::tiny_model(testing::tiny_spec());
    ASSERT_TRUE(model.ok()) << model.status().message();
    CrowdOptions options;
    options.session = small_budget();
    options.policies = {"snapkv:window=8"};
    options.n_chats = 4;
    options.n_prefix = 100;
    options.n_tail = 20;
    options.n_generate = 10;
    options.n_long = 480;
    const auto report = measure_crowd(*model, options);
    ASSERT_TRUE(report.ok()) << report.status().message();
    EXPECT_EQ(report->n_long_steps, 3 * 480 / 48);  // a chunk of a layer each
    EXPECT_GE(report->n_tokens, 100 + 20 + 10 + 30);
    EXPECT_GE(report->longest_gap_s, report->median_gap_s);
    EXPECT_GE(report->longest_gap_s, report->longest_unit_s);
    EXPECT_GT(report->longest_unit_s, 0);
    EXPECT_GT(report->token_s, 0);
}

TEST(BenchCrowd, NamesTheNumberThatIsTooSmall) {
    const auto model = testing::tiny_model(testing::tiny_spec());
    ASSERT_TRUE(model.ok()) << model.status().message();
    CrowdOptions options;
    options.policies = {"full"};
    options.n_tail = 0;
    EXPECT_NE(measure_crowd(*model, options).status().message().find("--tail is 0"), std::string::npos);
}

// Behind forty times the context that the model was made for.
TEST(BenchEndless, TheCacheStaysInsideItsBudget) {
    const auto model = testing::tiny_model(testing::tiny_spec());
    ASSERT_TRUE(model.ok()) << model.status().message();
    EndlessOptions options;
    options.session = small_budget();
    options.policies = {"snapkv:window=8"};
    options.n_tokens = 20000;
    options.n_generate = 2000;
    options.n_compared = 480;
    const auto report = measure_endless(*model, options);
    ASSERT_TRUE(report.ok()) << report.status().message();
    EXPECT_EQ(report->ledger.n_tokens, 20000);
    EXPECT_EQ(report->single.n_tokens, 2000);
    EXPECT_LE(report->ledger.peak_lane_entries, 64 * 2 * 3 + 48);  // lanes may be of unlike length
    const size_t entry = size_t{2} * 32 * 2;
    EXPECT_LE(report->ledger.kv_peak_bytes, size_t{3} * 2 * ((64 + 48) * entry + 2 * 4096));
    EXPECT_GT(report->chunks.ratio, 0);
    EXPECT_GT(report->single.ratio, 0);
}

TEST(BenchEndless, SaysWhereNothingIsEvicted) {
    const auto model = testing::tiny_model(testing::tiny_spec());
    ASSERT_TRUE(model.ok()) << model.status().message();
    EndlessOptions options;
    options.session = small_budget();
    options.session.budget = Budget();
    options.policies = {"full"};
    options.n_tokens = 400;
    options.n_generate = 0;
    EXPECT_NE(measure_endless(*model, options).status().message().find("'full' evicted nothing"), std::string::npos);
    options.n_tokens = 100;
    EXPECT_NE(measure_endless(*model, options).status().message().find("--endless is 100: give 192 or more"),
              std::string::npos);
}

}  // namespace
}  // namespace pith::bench_crowd_test
