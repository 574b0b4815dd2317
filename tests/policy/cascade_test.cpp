// cascade_test.cpp - evicting layer by layer ends where evicting all layers at once ends.
#include <gtest/gtest.h>

#include <algorithm>

#include "policy/evidence_maker.h"
#include "policy/on_threads.h"
#include "policy/reference.h"
#include "policy/registry.h"
#include "policy/run_cascade.h"
#include "policy/variants.h"

namespace pith::test::cascade_test {
namespace {

std::vector<Policy> some_policies() {
    std::vector<Policy> policies;
    for (const ScorerInfo & scorer : scorers()) {
        for (const AllocatorInfo & allocator : allocators()) {
            if (allocator.name == "novelty" || !is_allowed(scorer.name, "", allocator.name, "topk")) continue;
            for (const PartVariant & variant : variants_of(allocator.name, allocator.options)) {
                std::string text(scorer.name);
                for (const OptionSpec & spec : scorer.options) {  // protect little: lanes here are short
                    if (spec.name == "window") text += ":window=" + variant.window_beside("3");
                    if (spec.name == "recent") text += ":recent=3";
                    if (spec.name == "sinks") text += ":sinks=4";
                }
                if (scorer.name != "full") text += "+" + variant.text();
                policies.push_back(Policy::parse(text).value());
            }
        }
    }
    return policies;
}

// Most allocators know a layer's weight when it arrives, or (entropy, global) can only lower what it gets later, so nothing is
// lost by not waiting. Novelty is another matter: the parts of a layer's lanes are fixed when it arrives.
TEST(Cascade, EndsWhereAllAtOnceEndsWhenLanesAreEquallyLong) {
    uint32_t seed = 0;
    for (const Policy & policy : some_policies()) {
        for (int repeat = 0; repeat < 6; ++repeat) {
            Rng rng(++seed);
            const CacheShape shape{random_int(rng, 1, 5), random_int(rng, 1, 4), random_int(rng, 1, 2), 8};
            const int n = random_int(rng, 12, 70);
            const EvictionTarget target{shape, random_int(rng, 8, n + 2), {{2, 4}}, make_importance(rng, shape)};
            const auto layers = make_equal(rng, shape, n);
            SCOPED_TRACE(policy.name() + ", seed " + std::to_string(seed) + ", budget " + std::to_string(target.budget));
            Cache at_once;
            Cache cascade;
            ASSERT_NO_FATAL_FAILURE(run_at_once(policy, target, layers, at_once));
            if (!policy.evicts()) continue;
            ASSERT_NO_FATAL_FAILURE(run_cascade(policy, target, layers, n, cascade));
            ASSERT_EQ(cascade, at_once);
            const int64_t all = std::min<int64_t>(target.budget, n) * shape.n_lanes();
            ASSERT_TRUE(n_entries(cascade) == all || (policy.keeps_less() && n_entries(cascade) < all));
        }
    }
}

TEST(Cascade, EndsInTheSameOnAnyNumberOfThreads) {
    for (const char * name : {"snapkv:window=3", "adakv:window=3", "criticalkv:window=3", "snapkv:window=3+joint",
                              "snapkv:window=3+caote+joint", "snapkv:window=3+novelty+diverse", "laprox:window=3",
                              "h2o:recent=2+pyramid", "snapkv:window=3+entropy", "snapkv:window=3+preference"}) {
        const Policy policy = Policy::parse(name).value();
        for (uint32_t seed = 1; seed <= 10; ++seed) {
            SCOPED_TRACE(std::string(name) + ", seed " + std::to_string(seed));
            Rng rng(seed);
            const CacheShape shape{3, 7, 2, 8};
            const auto layers = make_ragged(rng, shape, 60);
            const EvictionTarget in_turn{shape, random_int(rng, 8, 24), {}};
            EvictionTarget side_by_side = in_turn;
            side_by_side.run_tasks = run_on_three_threads;
            Cache at_once[2];
            Cache cascade[2];
            ASSERT_NO_FATAL_FAILURE(run_at_once(policy, in_turn, layers, at_once[0]));
            ASSERT_NO_FATAL_FAILURE(run_at_once(policy, side_by_side, layers, at_once[1]));
            ASSERT_EQ(at_once[0], at_once[1]);
            for (const size_t n_first : {size_t{0}, size_t{1}, size_t{3}}) {  // layers added together
                EvictionPass pass(policy, side_by_side, false, 0);
                ASSERT_TRUE(pass.add_layers(std::span(layers).first(n_first)).ok());
                ASSERT_TRUE(pass.add_layers(std::span(layers).subspan(n_first)).ok());
                const auto plans = pass.finish();
                ASSERT_TRUE(plans.ok()) << plans.status().message();
                Cache together;
                for (const LayerEvidence & layer : layers) together.push_back(layer.positions);
                ASSERT_NO_FATAL_FAILURE(apply_plans(*plans, together));
                ASSERT_EQ(together, at_once[0]);
            }
            const auto equal = make_equal(rng, shape, 60);
            ASSERT_NO_FATAL_FAILURE(run_cascade(policy, in_turn, equal, 60, cascade[0]));
            ASSERT_NO_FATAL_FAILURE(run_cascade(policy, side_by_side, equal, 60, cascade[1]));
            ASSERT_EQ(cascade[0], cascade[1]);
        }
    }
}

TEST(Cascade, IsExactAlsoWhenLayersBringMoreOrLessThanExpected) {
    for (uint32_t seed = 1; seed <= 60; ++seed) {
        for (const char * name :
             {"h2o:recent=2", "h2o:recent=2+pyramid", "h2o:recent=2+ada:alpha=0", "snapkv:window=2+ada:floor=hard",
              "snapkv:window=2+head", "streaming+retrieval:sinks=4:recent=4", "snapkv:window=2+preference",
              "snapkv:window=2+entropy", "snapkv:window=2+novelty+diverse", "snapkv:window=2+global"}) {
            Rng rng(seed);
            const CacheShape shape{4, 3, 2, 8};
            const EvictionTarget target{shape, random_int(rng, 6, 30), {}, make_importance(rng, shape)};
            const auto layers = make_ragged(rng, shape, 60);
            EvictionPass pass(Policy::parse(name).value(), target, true, 40);
            Cache cache;
            for (const LayerEvidence & layer : layers) {
                ASSERT_TRUE(pass.add_layer(layer).ok());
                cache.push_back(layer.positions);
                const auto plans = pass.cascade();
                ASSERT_TRUE(plans.ok()) << plans.status().message();
                ASSERT_NO_FATAL_FAILURE(apply_plans(*plans, cache));
            }
            const int64_t there_is = n_entries(cache);
            const auto plans = pass.finish();
            ASSERT_TRUE(plans.ok()) << plans.status().message();
            ASSERT_NO_FATAL_FAILURE(apply_plans(*plans, cache));
            EXPECT_EQ(n_entries(cache), std::min(target.budget * shape.n_lanes(), there_is)) << name << ", seed " << seed;
        }
    }
}

TEST(Cascade, FinishAloneDoesWhatTheCallsBeforeItLeftOut) {
    Rng rng(5);
    const CacheShape shape{3, 2, 2, 8};
    const auto layers = make_equal(rng, shape, 50);
    const EvictionTarget target{shape, 20, {}};
    const Policy policy = Policy::parse("h2o:recent=4+ada").value();
    Cache at_once;
    run_at_once(policy, target, layers, at_once);
    EvictionPass pass(policy, target, true, 50);
    Cache cache;
    for (const LayerEvidence & layer : layers) {
        ASSERT_TRUE(pass.add_layer(layer).ok());
        cache.push_back(layer.positions);
    }
    apply_plans(pass.finish().value(), cache);
    EXPECT_EQ(cache, at_once);
}

TEST(Cascade, AFullPolicyOrALargeBudgetPlansNothing) {
    Rng rng(6);
    const CacheShape shape{3, 2, 1, 8};
    const auto layers = make_equal(rng, shape, 50);
    for (const auto & [name, budget] : {std::pair{"full", 5}, std::pair{"snapkv", 50}, std::pair{"adakv", 5000}}) {
        EvictionPass pass(Policy::parse(name).value(), {shape, budget, {}}, true, 50);
        for (const LayerEvidence & layer : layers) {
            ASSERT_TRUE(pass.add_layer(layer).ok());
            EXPECT_TRUE(pass.cascade().value().empty());
        }
        EXPECT_TRUE(pass.finish().value().empty()) << name;
    }
}

}  // namespace
}  // namespace pith::test::cascade_test
