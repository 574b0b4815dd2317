// eviction_test.cpp - what an eviction refuses, and how it says so.
#include "policy/eviction.h"

#include <gtest/gtest.h>

#include <atomic>
#include <limits>

#include "policy/evidence_maker.h"
#include "policy/on_threads.h"
#include "policy/registry.h"

namespace pith::test::eviction_test {
namespace {

constexpr CacheShape kShape{2, 2, 2, 8};

Policy policy(const char * text) {
    return Policy::parse(text).value();
}

Status first_error(const Policy & policy, const EvictionTarget & target, const std::vector<LayerEvidence> & layers) {
    EvictionPass pass(policy, target, false, 0);
    for (const LayerEvidence & layer : layers) PITH_RETURN_IF_ERROR(pass.add_layer(layer));
    return pass.finish().status();
}

TEST(Eviction, ABudgetBelowTheProtectedEntriesIsAnErrorThatNamesBoth) {
    Rng rng(1);
    const auto layers = make_equal(rng, kShape, 64);
    const Status status = first_error(policy("snapkv"), {kShape, 16, {}}, layers);
    EXPECT_EQ(status.code(), ErrorCode::kBudget);
    EXPECT_EQ(status.message(),
              "budget of 16 tokens per head (64 in all 4 heads) cannot hold the 128 protected ones of policy 'snapkv' (sinks, "
              "recent window, pinned spans): use budget 32 or more, or protect less");
    EXPECT_TRUE(first_error(policy("snapkv"), {kShape, 32, {}}, layers).ok());
    EXPECT_EQ(first_error(policy("snapkv"), {kShape, 32, {{0, 1}}}, layers).code(), ErrorCode::kBudget);

    EvictionPass cascade(policy("snapkv"), {kShape, 16, {}}, true, 64);
    ASSERT_TRUE(cascade.add_layer(layers[0]).ok());
    EXPECT_EQ(cascade.cascade().status().code(), ErrorCode::kBudget) << "known from the first layer on";
}

TEST(Eviction, ABudgetOfNothingIsRefused) {
    Rng rng(1);
    for (const int64_t budget : {0, -3}) {
        const Status status = first_error(policy("window"), {kShape, budget, {}}, make_equal(rng, kShape, 4));
        EXPECT_EQ(status.code(), ErrorCode::kInvalidArgument);
        EXPECT_NE(status.message().find(std::to_string(budget)), std::string::npos);
    }
}

TEST(Eviction, AHugeBudgetDoesNotOverflow) {
    Rng rng(1);
    const auto layers = make_equal(rng, kShape, 40);
    EvictionPass pass(policy("knorm"), {kShape, std::numeric_limits<int64_t>::max(), {}}, false, 0);
    for (const LayerEvidence & layer : layers) ASSERT_TRUE(pass.add_layer(layer).ok());
    EXPECT_TRUE(pass.finish().value().empty());
}

TEST(Eviction, AScoreThatIsNotFiniteIsAnErrorThatNamesLayerHeadAndEntry) {
    for (const float broken : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
        Rng rng(2);
        auto layers = make_equal(rng, kShape, 20);
        layers[1].key_norm.row(1)[7] = broken;
        const Status status = first_error(policy("knorm:recent=0"), {kShape, 5, {}}, layers);
        EXPECT_EQ(status.code(), ErrorCode::kNotFinite);
        EXPECT_NE(status.message().find("layer 1, head 1, entry 7 (position 7)"), std::string::npos) << status.message();
    }
}

TEST(Eviction, WhatLayersSideBySideRunIntoIsAnErrorThatNamesTheLayer) {
    Rng rng(2);
    const CacheShape shape{4, 2, 2, 8};
    auto layers = make_equal(rng, shape, 20);
    EvictionTarget target{shape, 5, {}};
    target.run_tasks = run_on_three_threads;
    layers[2].key_norm.row(1)[7] = std::numeric_limits<float>::infinity();
    EvictionPass broken(policy("knorm:recent=0"), target, false, 0);
    const Status status = broken.add_layers(layers);
    EXPECT_EQ(status.code(), ErrorCode::kNotFinite);
    EXPECT_NE(status.message().find("layer 2, head 1, entry 7"), std::string::npos) << status.message();

    // The threads find no memory: for the scores, and for the choices.
    layers[2].key_norm.row(1)[7] = 1;
    for (const int n_good : {0, 1}) {
        int n_runs = 0;
        target.run_tasks = [&](int n_tasks, const std::function<void(int)> & task) -> Status {
            if (n_runs++ == n_good) return {ErrorCode::kOutOfMemory, "no memory on a thread"};
            return run_in_turn(n_tasks, task);
        };
        EvictionPass pass(policy("knorm:recent=0"), target, false, 0);
        const Status added = pass.add_layers(layers);
        EXPECT_EQ((n_good == 0 ? added : pass.finish().status()).code(), ErrorCode::kOutOfMemory);
        EXPECT_EQ(added.ok(), n_good == 1);
    }
}

// Between layers, and inside a selector that goes from entry to entry.
TEST(Eviction, IsCancelledWhereverItStands) {
    Rng rng(2);
    const CacheShape shape{3, 2, 2, 8};
    const auto layers = make_equal(rng, shape, 60);
    for (const char * name : {"knorm:recent=0", "snapkv:window=8", "snapkv:window=8+novelty+diverse", "knorm:recent=0+joint"}) {
        SCOPED_TRACE(name);
        std::atomic<bool> cancel = false;
        EvictionTarget target{shape, 20, {}};
        target.cancel = &cancel;
        {
            EvictionPass pass(policy(name), target, false, 0);
            ASSERT_TRUE(pass.add_layer(layers[0]).ok());
            cancel = true;
            EXPECT_EQ(pass.add_layer(layers[1]).code(), ErrorCode::kCancelled);
        }
        cancel = false;
        {
            EvictionPass pass(policy(name), target, false, 0);
            for (const LayerEvidence & layer : layers) ASSERT_TRUE(pass.add_layer(layer).ok());
            cancel = true;
            EXPECT_EQ(pass.finish().status().code(), ErrorCode::kCancelled);
        }
        cancel = false;
        // As the first lane is chosen from: the others are left, and of this one what a loop has still to do.
        int n_runs = 0;
        target.run_tasks = [&](int n_tasks, const std::function<void(int)> & task) -> Status {
            cancel = ++n_runs > 3;
            return run_in_turn(n_tasks, task);
        };
        EvictionPass pass(policy(name), target, false, 0);
        for (const LayerEvidence & layer : layers) ASSERT_TRUE(pass.add_layer(layer).ok());
        n_runs = 3;
        EXPECT_EQ(pass.finish().status().code(), ErrorCode::kCancelled);
    }
}

TEST(Eviction, MissingEvidenceIsAnErrorThatNamesIt) {
    Rng rng(3);
    const auto whole = make_equal(rng, kShape, 40);
    const auto expect_missing = [&](const char * name, auto remove, const char * what) {
        auto layers = whole;
        remove(layers[0]);
        const Status status = first_error(policy(name), {kShape, 36, {}}, layers);
        EXPECT_EQ(status.code(), ErrorCode::kMissingEvidence);
        EXPECT_NE(status.message().find(what), std::string::npos) << status.message();
    };
    expect_missing(
        "snapkv", [](LayerEvidence & e) { e.window_mean = {}; }, "snapkv needs window_mean");
    expect_missing(
        "h2o", [](LayerEvidence & e) { e.running_sum = {}; }, "h2o needs running_sum");
    expect_missing(
        "tova", [](LayerEvidence & e) { e.last_query = {}; }, "tova needs last_query");
    expect_missing(
        "tova:heads=layer", [](LayerEvidence & e) { e.last_query = {}; }, "tova needs last_query");
    expect_missing(
        "knorm",
        [](LayerEvidence & e) {
            e.key_norm = Ragged<float>(std::vector<int>{40, 39});
        },
        "knorm needs key_norm");
}

TEST(Eviction, WithoutTheImportanceOfEveryHeadSomePoliciesRefuse) {
    Rng rng(3);
    const auto layers = make_equal(rng, kShape, 40);
    for (const char * name : {"snapkv+head", "streaming+retrieval"}) {
        const Status status = first_error(policy(name), {kShape, 36, {}}, layers);
        EXPECT_EQ(status.code(), ErrorCode::kInvalidArgument);
        EXPECT_NE(status.message().find("all 8 query heads"), std::string::npos) << status.message();
        EXPECT_NE(status.message().find("pith calibrate heads"), std::string::npos) << status.message();
        auto few = std::make_shared<HeadImportance>();
        few->copy.assign(8, 1.0);
        few->reason.assign(7, 1.0);
        EXPECT_EQ(first_error(policy(name), {kShape, 36, {}, few}, layers).code(), ErrorCode::kInvalidArgument);
        few->reason.push_back(1.0);
        EXPECT_TRUE(first_error(policy(name), {kShape, 36, {}, few}, layers).ok());
    }
}

TEST(Eviction, APolicyThatWantsAllLayersPlansNothingBeforeTheLast) {
    Rng rng(3);
    const auto layers = make_equal(rng, kShape, 40);
    EvictionPass pass(policy("snapkv:window=4+novelty:exact=two-pass"), {kShape, 20, {}}, true, 40);
    for (const LayerEvidence & layer : layers) {
        ASSERT_TRUE(pass.add_layer(layer).ok());
        EXPECT_TRUE(pass.cascade().value().empty());
    }
    EXPECT_FALSE(pass.finish().value().empty());
}

TEST(Eviction, EveryScorerNamesTheEvidenceItLacks) {
    LayerEvidence bare;
    bare.n_kv_heads = 1;
    bare.n_group = 1;
    bare.n_seen = 3;
    bare.positions.push_row(std::vector<int32_t>{0, 1, 2});
    for (const ScorerInfo & info : scorers()) {
        const Policy parsed = policy(std::string(info.name).c_str());
        Ragged<float> scores;
        const Status status = parsed.scorer().score(bare, scores);
        EXPECT_EQ(status.code(), parsed.needs().any() ? ErrorCode::kMissingEvidence : ErrorCode::kOk) << info.name;
        if (!status.ok()) { EXPECT_EQ(status.message().find(std::string(info.name) + " needs "), 0U) << status.message(); }
    }
}

TEST(Eviction, TasksThatFindNoMemoryAreAnError) {
    Rng rng(4);
    EvictionTarget target{kShape, 40, {}};
    target.run_tasks = [](int, const auto &) { return Status(ErrorCode::kOutOfMemory, "no memory"); };
    for (const char * name : {"snapkv", "criticalkv", "snapkv+joint"}) {
        EXPECT_EQ(first_error(policy(name), target, make_equal(rng, kShape, 60)).code(), ErrorCode::kOutOfMemory) << name;
    }
}

TEST(Eviction, LayersComeInOrderAndOnce) {
    Rng rng(4);
    const auto layers = make_equal(rng, kShape, 10);
    EvictionPass pass(policy("window"), {kShape, 5, {}}, false, 0);
    EXPECT_EQ(pass.add_layer(layers[1]).code(), ErrorCode::kInternal);
    ASSERT_TRUE(pass.add_layer(layers[0]).ok());
    EXPECT_EQ(pass.cascade().status().code(), ErrorCode::kInternal);
    EXPECT_EQ(pass.finish().status().code(), ErrorCode::kInternal) << "a layer is missing";
    ASSERT_TRUE(pass.add_layer(layers[1]).ok());
    EXPECT_TRUE(pass.finish().ok());
    EXPECT_EQ(pass.finish().status().code(), ErrorCode::kInternal);
}

TEST(Eviction, StreamingKeepsTheSinksAndTheNewest) {
    Rng rng(5);
    const CacheShape shape{1, 1, 1, 8};
    EvictionPass pass(policy("streaming:sinks=2"), {shape, 5, {{4, 5}}}, false, 0);
    ASSERT_TRUE(pass.add_layer(make_equal(rng, shape, 10)[0]).ok());
    const auto plans = pass.finish().value();
    ASSERT_EQ(plans.size(), 1U);
    const auto keep = plans[0].keep.row(0);
    EXPECT_EQ(std::vector<int32_t>(keep.begin(), keep.end()), (std::vector<int32_t>{0, 1, 4, 8, 9}));
}

TEST(Eviction, WhatAShortLaneLeavesGoesToTheOthers) {
    Rng rng(6);
    const CacheShape shape{1, 3, 1, 8};
    std::vector<int32_t> all(20);
    for (int i = 0; i < 20; ++i) all[static_cast<size_t>(i)] = i;
    const auto layer = make_evidence(rng, shape, 0, 20, {all, {18, 19}, all});
    EvictionPass pass(policy("window"), {shape, 5, {}}, false, 0);  // 15 in all: 2 + 13, the odd one to the lower head
    ASSERT_TRUE(pass.add_layer(layer).ok());
    const auto plans = pass.finish().value();
    EXPECT_EQ(plans[0].keep.length(0), 7);
    EXPECT_EQ(plans[0].keep.length(1), 2);
    EXPECT_EQ(plans[0].keep.length(2), 6);
}

}  // namespace
}  // namespace pith::test::eviction_test
