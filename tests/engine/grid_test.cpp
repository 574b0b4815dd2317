// grid_test.cpp - on a grid of positions what a sequence keeps depends on its tokens alone: not on how they were cut into
// calls, which of them were decoded, how long chunks are, or what else an engine does meanwhile. For every policy of the
// registry.
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>

#include "engine/registry_policies.h"
#include "engine/tiny_session.h"
#include "every_case.h"
#include "pith/batch_engine.h"

namespace pith::grid_test {
namespace {

using testing::Lanes;
using testing::lanes_below;
using testing::open_tiny;
using testing::policies_of_the_registry;
using testing::policy_test_name;
using testing::random_tokens;
using testing::tiny_model;
using testing::tiny_options;
using testing::tiny_spec;

constexpr int kTokens = 150;
constexpr int kGrid = 24;
constexpr int kBudget = 40;

SessionOptions on_grid(const std::string & policy, int chunk) {
    SessionOptions options = tiny_options(policy, kBudget, PrefillSchedule::kAuto, chunk);
    options.type_k = options.type_v = KvType::kF32;
    options.grid = kGrid;
    options.evict_every = 7;  // means nothing on a grid
    auto heads = std::make_shared<HeadImportance>();
    for (int i = 0; i < tiny_spec().n_layers * tiny_spec().n_heads; ++i) {
        heads->copy.push_back(0.1 * (i % 5));
        heads->reason.push_back(0.05 * (i % 7));
    }
    options.heads = heads;
    return options;
}

// Calls of these sizes, over and over; a call of one token behind the first call is a decoded one.
Lanes fed_in(const SessionOptions & options, std::span<const int32_t> tokens, const std::vector<size_t> & sizes) {
    Session session = open_tiny(options);
    for (size_t call = 0; !tokens.empty(); ++call) {
        const auto piece = tokens.first(std::min(tokens.size(), sizes[call % sizes.size()]));
        const Status status = piece.size() == 1 && call > 0 ? session.append(piece[0]) : session.prefill(piece);
        EXPECT_TRUE(status.ok()) << status.message();
        if (!status.ok()) { return {}; }
        tokens = tokens.subspan(piece.size());
    }
    return lanes_below(session, kTokens);
}

int64_t n_entries(const Lanes & lanes) {
    int64_t n = 0;
    for (const auto & lane : lanes) { n += std::ssize(lane); }
    return n;
}

int64_t n_missing(const Lanes & from, const Lanes & in) {
    int64_t n = 0;
    for (size_t i = 0; i < in.size(); ++i) {
        std::vector<int32_t> missing;
        std::ranges::set_difference(in[i], from[i], std::back_inserter(missing));
        n += std::ssize(missing);
    }
    return n;
}

// Without those that ask gates, which say nothing of decoded tokens.
std::vector<std::string> policies_on_grids() {
    std::vector<std::string> policies = policies_of_the_registry();
    std::erase_if(policies, [](const std::string & policy) { return policy.find("gate") != std::string::npos; });
    return policies;
}

class Grid : public ::testing::TestWithParam<std::string> {};

TEST_P(Grid, KeepsTheSameHoweverTheTokensCame) {
    const auto tokens = random_tokens(kTokens, tiny_spec().n_vocab, 7);
    const Lanes whole = fed_in(on_grid(GetParam(), 64), tokens, {kTokens});
    // The last point is 144; six tokens have come since.
    const int64_t n_lanes = std::ssize(whole);
    EXPECT_LE(n_entries(whole), n_lanes * (kBudget + kTokens % kGrid));
    EXPECT_GT(n_entries(whole), n_lanes * kTokens % kGrid);
    const std::vector<std::pair<int, std::vector<size_t>>> cuts = {
        {64, {1}}, {64, {61, 89}}, {16, {kTokens}}, {10, {1, 2, 3, 5, 8, 13, 21, 34}}, {500, {1, 47}}};
    for (size_t i = 0; i < cuts.size(); ++i) {
        if (!testing::in_turn(GetParam(), i, 2)) { continue; }  // this policy's half of them
        const auto & [chunk, sizes] = cuts[i];
        const Lanes cut = fed_in(on_grid(GetParam(), chunk), tokens, sizes);
        ASSERT_EQ(cut.size(), whole.size());
        EXPECT_EQ(n_missing(whole, cut), 0) << "chunk " << chunk << ", first call " << sizes[0];
        EXPECT_EQ(n_missing(cut, whole), 0) << "chunk " << chunk << ", first call " << sizes[0];
    }
}

INSTANTIATE_TEST_SUITE_P(Registry, Grid, ::testing::ValuesIn(policies_on_grids()), policy_test_name);

TEST(GridOfAnEngine, KeepsWhatASessionOnTheGridKeeps) {
    const Model model = tiny_model(tiny_spec()).value();
    const auto tokens = random_tokens(kTokens, tiny_spec().n_vocab, 7);
    for (const char * policy : {"snapkv:window=8", "h2o", "keydiff", "expected"}) {
        SCOPED_TRACE(policy);
        SessionOptions options = on_grid(policy, 64);
        options.grid = 0;
        EngineOptions all;
        all.type_k = all.type_v = KvType::kF32;
        all.n_threads = 1;
        all.grid = kGrid;
        all.max_rows = 11;
        auto engine = model.engine(all);
        ASSERT_TRUE(engine.ok());
        const auto id = engine->submit({.tokens = tokens, .options = options, .keep = true, .max_tokens = 0});
        const auto beside = engine->submit({.tokens = random_tokens(90, 384, 8), .options = options, .max_tokens = 30});
        ASSERT_TRUE(id.ok() && beside.ok());
        ASSERT_TRUE(engine->run().ok());
        ASSERT_EQ(engine->state(*id), RequestState::kDone) << engine->status(*id).message();
        const Lanes whole = fed_in(on_grid(policy, 64), tokens, {kTokens});
        Lanes kept;
        for (int l = 0; l < tiny_spec().n_layers; ++l) {
            for (int h = 0; h < tiny_spec().n_kv_heads; ++h) {
                const auto lane = engine->lane_positions(*id, l, h);
                kept.emplace_back(lane.begin(), lane.end());
            }
        }
        EXPECT_EQ(kept, whole);
        EXPECT_NE(engine->ledger(*id)->schedule.find("every 24th"), std::string::npos) << engine->ledger(*id)->schedule;
    }
}

TEST(GridOfASession, StaysWithinABudgetInBytes) {
    const auto tokens = random_tokens(4 * kTokens, tiny_spec().n_vocab, 7);
    SessionOptions options = on_grid("h2o", 64);
    options.budget = Budget(BudgetKind::kBytes, 256.0 * 1024);
    for (const PrefillSchedule schedule : {PrefillSchedule::kAuto, PrefillSchedule::kOneShot}) {
        options.prefill = schedule;
        const auto first = std::span(tokens).first(schedule == PrefillSchedule::kAuto ? 1 : kTokens);
        Session session = open_tiny(options);
        ASSERT_TRUE(session.prefill(first).ok());
        ASSERT_TRUE(session.prefill(std::span(tokens).subspan(first.size(), kTokens)).ok());
        for (const int32_t token : std::span(tokens).subspan(first.size() + kTokens)) {
            ASSERT_TRUE(session.append(token).ok());
        }
        EXPECT_GT(session.ledger().n_evictions, 3);
        EXPECT_LE(session.ledger().kv_peak_bytes, 256U * 1024);
    }
}

TEST(GridOfASession, LeavesOneShotPromptsAlone) {
    const auto tokens = random_tokens(kTokens, tiny_spec().n_vocab, 7);
    SessionOptions options = on_grid("snapkv:window=8", 64);
    options.prefill = PrefillSchedule::kOneShot;
    const Lanes one_shot = fed_in(options, tokens, {kTokens});
    options.grid = 0;
    EXPECT_EQ(fed_in(options, tokens, {kTokens}), one_shot);
    EXPECT_EQ(n_entries(one_shot), std::ssize(one_shot) * kBudget);
}

TEST(GridOfASession, WithoutEvictionInDecodeIsNone) {
    const auto tokens = random_tokens(kTokens, tiny_spec().n_vocab, 7);
    SessionOptions options = on_grid("knorm", 64);
    options.evict_every = 0;
    const Lanes with = fed_in(options, tokens, {100, 50});
    options.grid = 0;
    EXPECT_EQ(fed_in(options, tokens, {100, 50}), with);
}

}  // namespace
}  // namespace pith::grid_test
