// layer_lanes.h - how many lanes a layer has, how wide they are, and which keys its queries see. Stage: cache.
#pragma once

#include <cstdint>

namespace pith {

// The lanes of one layer.
struct LayerLanes {
    int n_kv_heads = 0;
    int n_group = 0;
    int head_dim = 0;
    int head_dim_v = 0;
    int window = 0;        // a query sees the keys of the newest so many positions, its own included; 0: all
    bool chunked = false;  // of these, those from the last multiple of the window on
    int source = -1;       // of a layer without lanes: the layer whose lanes its queries see; -1: none

    int n_heads() const { return n_kv_heads * n_group; }
    // First position that a query sees, which may be negative, and first query that no longer sees a key. REQUIRES: window > 0.
    int64_t first_seen(int64_t query) const { return chunked ? query / window * window : query - window + 1; }
    int64_t hidden_from(int64_t key) const { return chunked ? (key / window + 1) * window : key + window; }
};

}  // namespace pith
