// lane_rotation.h - rows of quantised types, rotated before they are rounded (core/hadamard.h): what a graph around attention,
// and whoever reads keys and values, does about it. Stage: attention.
//
// Rotated queries meet rotated keys, so that scores, and what is made of them, are those of the rows as they were. Attention's
// output is a mean of rotated values, and is rotated back. From keys whose model adds a bias to them a constant of the lane is
// taken first (CacheLayout::key_offsets): a query's scores all become smaller by the same.
#pragma once

#include <array>
#include <vector>

#include "cache/ragged_cache.h"
#include "device/graph_runner.h"

namespace pith {

// Of one graph.
class LaneRotation {
public:
    LaneRotation(GraphBuild & build, const CacheLayout & layout) : build_(build), layout_(layout) {}

    // q [d, H, n], k [d, K, n], v [dv, K, n] as a layer's lanes have them. k and v null: it reads another's lanes.
    void into_lanes(int layer, ggml_tensor *& q, ggml_tensor *& k, ggml_tensor *& v);
    // attended [dv·H, n] as the model has it.
    ggml_tensor * out_of_lanes(int layer, ggml_tensor * attended);
    // Rows f32 [d, n] of K or of V, as they were before they went into a lane.
    ggml_tensor * rows_as_made(int layer, int kv_head, ggml_tensor * rows, bool keys);
    // Queries [d, H, n] as they meet a layer's keys, or back: it is the same.
    ggml_tensor * queries_turned_over(int layer, ggml_tensor * q) {
        return layout_.rotates_k() ? rotated(q, on_device(layer)) : q;
    }
    // The way back of rows_as_made(), of rows of K.
    ggml_tensor * keys_into_lane(int layer, int kv_head, ggml_tensor * rows);

    // Operations for all of a layer's, at most.
    static size_t n_nodes(const CacheLayout & layout) { return layout.rotates_k() || layout.rotates_v() ? 24 : 0; }

private:
    ggml_tensor * rotated(ggml_tensor * x, bool on_device);
    ggml_tensor * without_offset(int layer, ggml_tensor * k);
    ggml_tensor * input_of(std::span<const float> offset, int64_t d, int64_t n_rows);
    bool on_device(int layer) const { return layout_.device(layout_.source(layer)) != nullptr; }

    GraphBuild & build_;
    const CacheLayout & layout_;
    std::array<ggml_tensor *, 32> matrices_{};  // [log2 of the block]: an input where no operation of Pith's own does it
};

// The same for rows [n][d] that are there.
void rotate_as_made(const CacheLayout & layout, int layer, int kv_head, std::span<float> rows, int head_dim, bool keys);

}  // namespace pith
