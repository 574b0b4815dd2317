// block_queries_test.cpp - attention within blocks and leverage of keys in sessions: however the tokens come.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "engine/policy_probe.h"
#include "engine/tiny_model.h"
#include "pith/session.h"

namespace pith::block_queries_test {
namespace {

using testing::random_tokens;
using testing::tiny_model;
using testing::tiny_spec;

constexpr int kPrompt = 530;  // two blocks, and a part of the third

Session open(PrefillSchedule schedule, int budget, int evict_every = 0) {
    static const Model model = tiny_model(tiny_spec()).value();
    SessionOptions options;
    options.policy = "compactor";
    options.budget = Budget(budget);
    options.prefill = schedule;
    options.chunk = 100;
    options.evict_every = evict_every;
    options.n_threads = 1;
    return std::move(*model.session(options));
}

void expect_near(const Ragged<float> & got, const Ragged<float> & expected) {
    ASSERT_EQ(got.n_rows(), expected.n_rows());
    ASSERT_EQ(got.size(), expected.size());
    for (size_t i = 0; i < got.size(); ++i) {  // products of other widths may round otherwise
        ASSERT_NEAR(got.flat()[i], expected.flat()[i], 2e-2 * std::max(0.1F, expected.flat()[i])) << i;
    }
}

TEST(BlockQueries, TokensThatComeOneByOneAreToldTheSameAsInOnePiece) {
    const std::vector<int32_t> tokens = random_tokens(kPrompt, tiny_spec().n_vocab);
    Session whole = open(PrefillSchedule::kOneShot, kPrompt);
    Session apart = open(PrefillSchedule::kChunked, kPrompt);
    ASSERT_TRUE(whole.prefill(tokens).ok());
    ASSERT_TRUE(apart.prefill(std::span(tokens).first(500)).ok());
    for (const int32_t token : std::span(tokens).subspan(500)) { ASSERT_TRUE(apart.append(token).ok()); }
    const EvidenceNeeds needs{.key_leverage = true, .block_attention = true};
    for (int layer = 0; layer < whole.n_layers(); ++layer) {
        const auto of_whole = PolicyProbe(whole).evidence(layer, needs);
        const auto of_apart = PolicyProbe(apart).evidence(layer, needs);
        ASSERT_TRUE(of_whole.ok() && of_apart.ok()) << of_apart.status().message();
        expect_near(of_apart->block_attention, of_whole->block_attention);
        expect_near(of_apart->key_leverage, of_whole->key_leverage);
    }
}

// What is evicted while it decodes is judged like all else.
TEST(BlockQueries, ServeEvictionsInChunksAndInDecode) {
    const std::vector<int32_t> tokens = random_tokens(kPrompt, tiny_spec().n_vocab);
    Session session = open(PrefillSchedule::kChunked, /*budget=*/60, /*evict_every=*/16);
    ASSERT_TRUE(session.prefill(std::span(tokens).first(480)).ok());
    for (const int32_t token : std::span(tokens).subspan(480)) { ASSERT_TRUE(session.append(token).ok()); }
    for (int layer = 0; layer < session.n_layers(); ++layer) {
        for (int h = 0; h < session.n_kv_heads(); ++h) {
            const auto positions = session.lane_positions(layer, h);
            EXPECT_LE(std::ssize(positions), 60 + 16);
            for (int32_t sink = 0; sink < 8; ++sink) { EXPECT_EQ(positions[static_cast<size_t>(sink)], sink); }
        }
    }
}

}  // namespace
}  // namespace pith::block_queries_test
