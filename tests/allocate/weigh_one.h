// weigh_one.h - asks an allocator for the weights of layers that are made by hand.
#pragma once

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "allocate/allocator.h"
#include "policy/policy.h"

namespace pith::test {

// scores [layer][lane][entry]; nothing is protected; positions are the indices.
inline std::vector<double> weights_of(const char * policy, const std::vector<std::vector<std::vector<float>>> & scores,
                                      int64_t net_total) {
    const Policy parsed = Policy::parse(policy).value();
    const CacheShape shape{static_cast<int>(scores.size()), static_cast<int>(scores[0].size()), 1, 8};
    const NetBudget budget{shape, net_total};
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
        const Status status = parsed.allocator().weigh({l, positions, rows, none}, budget, state.get(), weights);
        EXPECT_TRUE(status.ok()) << status.message();
    }
    return weights;
}

}  // namespace pith::test
