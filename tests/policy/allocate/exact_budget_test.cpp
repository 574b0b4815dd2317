// exact_budget_test.cpp - every allocator that divides a budget spends it to the entry.
#include <gtest/gtest.h>

#include "policy/evidence_maker.h"
#include "policy/registry.h"
#include "policy/run_cascade.h"
#include "policy/variants.h"

namespace pith::test::exact_budget_test {
namespace {

TEST(ExactBudget, FromOneEntryMoreThanIsProtectedToTheLongestLane) {
    constexpr int kRecent = 3;
    uint32_t seed = 0;
    for (const AllocatorInfo & allocator : allocators()) {
        if (allocator.name == "threshold") { continue; }  // it may keep less
        for (const PartVariant & variant : variants_of(allocator.name, allocator.options)) {
            const Policy policy = Policy::parse("snapkv:window=" + variant.window_beside("3") + "+" + variant.text()).value();
            Rng rng(++seed);
            const CacheShape shape{random_int(rng, 1, 4), random_int(rng, 1, 4), random_int(rng, 1, 2), 8};
            const bool equal = seed % 3 == 0;
            const int n = random_int(rng, 20, 40);
            const auto layers =
                equal ? make_equal(rng, shape, n) : make_ragged(rng, shape, n);  // ragged: short lanes, empty ones
            int64_t there_is = 0;
            for (const LayerEvidence & layer : layers) there_is += std::ssize(layer.positions.flat());
            for (int budget = kRecent + 1; budget <= n; ++budget) {
                SCOPED_TRACE(variant.text() + ", seed " + std::to_string(seed) + ", budget " + std::to_string(budget));
                const EvictionTarget target{shape, budget, {}, make_importance(rng, shape)};
                Cache cache;
                ASSERT_NO_FATAL_FAILURE(run_at_once(policy, target, layers, cache));
                ASSERT_EQ(n_entries(cache), std::min<int64_t>(int64_t{budget} * shape.n_lanes(), there_is));
                if (!equal) continue;
                Cache by_layer;
                ASSERT_NO_FATAL_FAILURE(run_cascade(policy, target, layers, n, by_layer));
                ASSERT_EQ(n_entries(by_layer), n_entries(cache)) << "layer by layer";
            }
        }
    }
}

}  // namespace
}  // namespace pith::test::exact_budget_test
