// lane_values.h - the values of one layer's lanes where they lie in the cache. Stage: attention → evidence.
//
// Any K/V type: expanded to f32 on the back end, tile by tile; a tile is expanded once for all query heads of its group.
// Threads: one at a time (it shares the session's runner).
#pragma once

#include <span>
#include <vector>

#include "cache/ragged_cache.h"
#include "device/graph_runner.h"
#include "policy/evidence/evidence.h"

namespace pith {

class LaneValues final : public ValueSource {
public:
    // The runner, the cache and the factor must outlive the object. group_factor: as OutputFactors::group_factor() gives it,
    // for output_errors(); empty: that is not wanted.
    LaneValues(GraphRunner & runner, const RaggedCache & cache, int seq, int layer, std::span<const float> group_factor = {});

    Status distances_to_mean(const Ragged<float> & weights, Ragged<float> & out) const override;
    Status output_errors(const Ragged<float> & weights, const Ragged<float> & odds, Ragged<float> & out) const override;
    Status lane_values(int kv_head, std::vector<float> & out) const override;
    int head_dim_v() const override { return cache_.layout().head_dim_v; }

private:
    Status check_unchanged() const;

    GraphRunner & runner_;
    const RaggedCache & cache_;
    int seq_;
    int layer_;
    std::span<const float> group_factor_;
    std::vector<int> lengths_;  // when made
};

// Entries of all lanes of a layer in host memory, as they were before they went into the lanes' type: [K], of each lane f32
// [length][width of `flat`], which is the layer's K or V. Overwrites `out`.
Status rows_of_lanes(GraphRunner & runner, const RaggedCache & cache, ggml_tensor * flat, int seq, int layer,
                     Ragged<float> & out);

}  // namespace pith
