// weigh_one.h - asks an allocator for the weights of layers that are made by hand.
#pragma once

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "policy/allocate/allocator.h"
#include "policy/policy.h"

namespace pith::test {

// scores [layer][lane][entry], one query head per lane; nothing is protected; positions are the indices.
inline std::vector<double> weights_of(const char * policy, const std::vector<std::vector<std::vector<float>>> & scores,
                                      int64_t net_total, const HeadImportance & importance = {},
                                      const std::vector<LayerProfile> & profiles = {}) {
    const Policy parsed = Policy::parse(policy).value();
    const CacheShape shape{static_cast<int>(scores.size()), static_cast<int>(scores[0].size()), 1, 8};
    std::vector<int> lengths;
    for (const auto & layer : scores) {
        for (const auto & lane : layer) lengths.push_back(static_cast<int>(lane.size()));
    }
    const std::vector<int> n_protected(lengths.size(), 0);
    const NetBudget budget{
        .shape = shape, .total = net_total, .importance = &importance, .net_lengths = lengths, .n_protected = n_protected};
    std::vector<double> weights(static_cast<size_t>(shape.n_lanes()));
    const auto state = parsed.allocator().begin();
    parsed.allocator().expect(budget, weights);
    for (int l = 0; l < shape.n_layers; ++l) {
        Ragged<float> rows;
        Ragged<int32_t> positions;
        Ragged<IndexRange> none(std::vector<int>(static_cast<size_t>(shape.n_kv_heads), 0));
        for (const auto & lane : scores[static_cast<size_t>(l)]) {
            rows.push_row(lane);
            std::vector<int32_t> indices(lane.size());
            std::iota(indices.begin(), indices.end(), 0);
            positions.push_row(indices);
        }
        const LayerView view{.layer = l,
                             .positions = positions,
                             .scores = rows,
                             .protected_ranges = none,
                             .profile = profiles.empty() ? nullptr : &profiles[static_cast<size_t>(l)]};
        const Status status = parsed.allocator().weigh(view, budget, state.get(), weights);
        EXPECT_TRUE(status.ok()) << status.message();
    }
    return weights;
}

}  // namespace pith::test
