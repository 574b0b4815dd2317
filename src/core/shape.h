// shape.h - the counts that every stage shares. Stage: all.
// Pure C++: no ggml, no I/O.
#pragma once

#include <cmath>

#include "pith/position_span.h"

namespace pith {

// What products of queries and keys of this size are multiplied by before the softmax, where a model does not say otherwise
// (Hparams::attention_scale is what it says; CacheLayout hands that on).
inline float usual_attention_scale(int head_dim) {
    return 1.0F / std::sqrt(static_cast<float>(head_dim));
}

// One model's cache, for one sequence: lanes are (layer, KV head); n_layers · n_kv_heads of them.
struct CacheShape {
    int n_layers = 0;
    int n_kv_heads = 0;  // per layer
    int n_group = 0;     // query heads per KV head
    int head_dim = 0;

    int n_heads() const { return n_kv_heads * n_group; }
    int n_lanes() const { return n_layers * n_kv_heads; }
    int lane(int layer, int kv_head) const { return layer * n_kv_heads + kv_head; }
    bool operator==(const CacheShape &) const = default;
};

}  // namespace pith
