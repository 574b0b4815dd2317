// observe.h - what given queries pay to the entries of a layer: the second, small product behind all attention evidence.
// Stage: attention → evidence.
//
// The forward pass stays fused; this computes softmax(q·K/sqrt(d)) again for the observed queries only, block by block, and
// reduces it on the back end: only one number per entry and head comes to the host.
#pragma once

#include <cstdint>
#include <span>

#include "attention/graph_runner.h"
#include "cache/ragged_cache.h"
#include "core/ragged.h"

namespace pith {

struct ObserveWants {
    bool column_sum = false;  // Σ over the queries of A
    bool group_sq = false;    // Σ over the queries of (group mean of A)²
    bool last = false;        // A of the last query
};

struct Observed {
    Ragged<float> column_sum;  // [H]
    Ragged<float> group_sq;    // [K]
    Ragged<float> last;        // [H]
};

// queries f32 [n][H][head_dim] after RoPE, ascending query_positions [n]. A query sees the entries whose position is not above
// its own. REQUIRES: n >= 1; every query sees at least one entry of every lane.
// Cost: O(n · H · lane length · d); memory for 64 queries of one KV head at a time.
Status observe_queries(GraphRunner & runner, const RaggedCache & cache, int seq, int layer, const float * queries,
                       std::span<const int32_t> query_positions, const ObserveWants & wants, Observed & out);

// |k|₂ of every entry: [K].
Status key_norms(GraphRunner & runner, const RaggedCache & cache, int seq, int layer, Ragged<float> & out);

}  // namespace pith
