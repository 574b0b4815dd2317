// run_cascade.h - one eviction, all layers at once or layer by layer, on a cache that is only its positions.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "policy/eviction.h"

namespace pith::test {

using Cache = std::vector<Ragged<int32_t>>;  // positions of each layer

inline void apply_plans(const std::vector<LayerPlan> & plans, Cache & cache) {
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

inline int64_t n_entries(const Cache & cache) {
    int64_t n = 0;
    for (const auto & layer : cache) n += static_cast<int64_t>(layer.size());
    return n;
}

inline void run_at_once(const Policy & policy, const EvictionTarget & target, const std::vector<LayerEvidence> & layers,
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

// `most`: the most entries held after a layer came and before any was cut.
inline void run_cascade(const Policy & policy, const EvictionTarget & target, const std::vector<LayerEvidence> & layers,
                        int n_to_come, Cache & cache, int64_t * most = nullptr) {
    EvictionPass pass(policy, target, true, n_to_come);
    for (const LayerEvidence & layer : layers) {
        ASSERT_TRUE(pass.add_layer(layer).ok());
        cache.push_back(layer.positions);
        if (most != nullptr) *most = std::max(*most, n_entries(cache));
        const auto plans = pass.cascade();
        ASSERT_TRUE(plans.ok()) << plans.status().message();
        ASSERT_NO_FATAL_FAILURE(apply_plans(*plans, cache));
        // Rounding up may cost one entry a lane while layers arrive.
        if (!policy.wants_all_layers()) {
            EXPECT_LE(n_entries(cache), target.budget * target.shape.n_lanes() + target.shape.n_lanes());
        }
    }
    const auto plans = pass.finish();
    ASSERT_TRUE(plans.ok()) << plans.status().message();
    apply_plans(*plans, cache);
}

}  // namespace pith::test
