// cascade_test.cpp - evicting layer by layer ends where evicting all layers at once ends.
#include <gtest/gtest.h>

#include <algorithm>

#include "policy/eviction.h"
#include "policy/evidence_maker.h"
#include "policy/registry.h"
#include "policy/variants.h"

namespace pith::test {
namespace {

using Cache = std::vector<Ragged<int32_t>>;  // positions of each layer

void apply_plans(const std::vector<LayerPlan> & plans, Cache & cache) {
    for (const LayerPlan & plan : plans) {
        Ragged<int32_t> & layer = cache[static_cast<size_t>(plan.layer)];
        ASSERT_LT(plan.keep.size(), layer.size());
        Ragged<int32_t> left;
        for (int h = 0; h < layer.n_rows(); ++h) {
            std::vector<int32_t> lane;
            for (const int32_t j : plan.keep.row(h)) {
                ASSERT_GE(j, 0);
                ASSERT_LT(j, layer.length(h));
                lane.push_back(layer.row(h)[static_cast<size_t>(j)]);
            }
            ASSERT_TRUE(std::is_sorted(lane.begin(), lane.end()));
            left.push_row(lane);
        }
        layer = left;
    }
}

int64_t n_entries(const Cache & cache) {
    int64_t n = 0;
    for (const auto & layer : cache) n += static_cast<int64_t>(layer.size());
    return n;
}

void run_at_once(const Policy & policy, const EvictionTarget & target, const std::vector<LayerEvidence> & layers,
                 Cache & cache) {
    EvictionPass pass(policy, target, false, 0);
    for (const LayerEvidence & layer : layers) {
        ASSERT_TRUE(pass.add_layer(layer).ok());
        cache.push_back(layer.positions);
    }
    const auto plans = pass.finish();
    ASSERT_TRUE(plans.ok()) << plans.status().message();
    apply_plans(*plans, cache);
}

void run_cascade(const Policy & policy, const EvictionTarget & target, const std::vector<LayerEvidence> & layers, int n_to_come,
                 Cache & cache) {
    EvictionPass pass(policy, target, true, n_to_come);
    for (const LayerEvidence & layer : layers) {
        ASSERT_TRUE(pass.add_layer(layer).ok());
        cache.push_back(layer.positions);
        const auto plans = pass.cascade();
        ASSERT_TRUE(plans.ok()) << plans.status().message();
        ASSERT_NO_FATAL_FAILURE(apply_plans(*plans, cache));
        // Rounding up may cost one entry a lane while layers arrive.
        EXPECT_LE(n_entries(cache), target.budget * target.shape.n_lanes() + target.shape.n_lanes());
    }
    const auto plans = pass.finish();
    ASSERT_TRUE(plans.ok()) << plans.status().message();
    apply_plans(*plans, cache);
}

std::vector<Policy> some_policies() {
    std::vector<Policy> policies;
    for (const ScorerInfo & scorer : scorers()) {
        for (const AllocatorInfo & allocator : allocators()) {
            for (const PartVariant & variant : variants_of(allocator.name, allocator.options)) {
                std::string text(scorer.name);
                for (const OptionSpec & spec : scorer.options) {  // protect little: lanes here are short
                    if (spec.name == "window" || spec.name == "recent") text.append(":").append(spec.name).append("=3");
                }
                policies.push_back(Policy::parse(text + "+" + variant.text()).value());
            }
        }
    }
    return policies;
}

// Uniform, pyramid and ada know a layer's weight when it arrives, so nothing is lost by not waiting.
TEST(Cascade, EndsWhereAllAtOnceEndsWhenLanesAreEquallyLong) {
    uint32_t seed = 0;
    for (const Policy & policy : some_policies()) {
        for (int repeat = 0; repeat < 6; ++repeat) {
            Rng rng(++seed);
            const CacheShape shape{random_int(rng, 1, 5), random_int(rng, 1, 4), random_int(rng, 1, 2), 8};
            const int n = random_int(rng, 12, 70);
            const EvictionTarget target{shape, random_int(rng, 8, n + 2), {{2, 4}}};
            const auto layers = make_equal(rng, shape, n);
            SCOPED_TRACE(policy.name() + ", seed " + std::to_string(seed) + ", budget " + std::to_string(target.budget));
            Cache at_once;
            Cache cascade;
            ASSERT_NO_FATAL_FAILURE(run_at_once(policy, target, layers, at_once));
            if (!policy.evicts()) continue;
            ASSERT_NO_FATAL_FAILURE(run_cascade(policy, target, layers, n, cascade));
            ASSERT_EQ(cascade, at_once);
            ASSERT_EQ(n_entries(cascade), std::min<int64_t>(target.budget, n) * shape.n_lanes());
        }
    }
}

TEST(Cascade, IsExactAlsoWhenLayersBringMoreOrLessThanExpected) {
    for (uint32_t seed = 1; seed <= 60; ++seed) {
        for (const char * name :
             {"h2o:recent=2", "h2o:recent=2+pyramid", "h2o:recent=2+ada:alpha=0", "snapkv:window=2+ada:floor=hard"}) {
            Rng rng(seed);
            const CacheShape shape{4, 3, 2, 8};
            const EvictionTarget target{shape, random_int(rng, 6, 30), {}};
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
}  // namespace pith::test
