// lane_tiles.h - a lane in tiles of entries, so that what is computed from it needs bounded scratch. Stage: attention →
// evidence.
#pragma once

#include <algorithm>
#include <cstdint>

#include "attention/lane_rotation.h"
#include "cache/ragged_cache.h"
#include "core/ragged.h"
#include "ggml.h"

namespace pith {

inline constexpr int64_t kTileFloats = int64_t{1} << 17U;  // what a tile's largest intermediate may hold: 512 KiB

// Entries per tile when each of them takes row_floats floats of scratch.
inline int tile_length(int64_t row_floats) {
    return static_cast<int>(std::clamp<int64_t>(kTileFloats / std::max<int64_t>(row_floats, 1), 32, 4096));
}

inline size_t n_tiles(int length, int tile) {
    return static_cast<size_t>((length + tile - 1) / tile);
}

// Calls visit(first, n) for every tile of a lane, ascending.
template <class Visit>
void for_each_tile(int length, int tile, Visit visit) {
    for (int first = 0; first < length; first += tile) { visit(first, std::min(tile, length - first)); }
}

// Entries [first, first + n) of a lane as they lie there, f32 [d, n]; `flat` is the layer's K or V.
inline ggml_tensor * entries_f32(ggml_context * ctx, const RaggedCache & cache, ggml_tensor * flat, int seq, int layer,
                                 int kv_head, int first, int n) {
    ggml_tensor * rows = ggml_view_2d(ctx, flat, flat->ne[0], n, flat->nb[1],
                                      flat->nb[1] * static_cast<size_t>(cache.cell(seq, layer, kv_head, first)));
    return rows->type == GGML_TYPE_F32 ? rows : ggml_cast(ctx, rows, GGML_TYPE_F32);
}

// The same as they were before they went into the lane. Up to kMadeNodes operations.
inline constexpr size_t kMadeNodes = 8;
inline ggml_tensor * entries_as_made(GraphBuild & build, const RaggedCache & cache, ggml_tensor * flat, int seq, int layer,
                                     int kv_head, int first, int n) {
    return LaneRotation(build, cache.layout())
        .rows_as_made(layer, kv_head, entries_f32(build.ctx(), cache, flat, seq, layer, kv_head, first, n),
                      flat == cache.k(layer));
}

// The lanes' lengths, each `copies` times: the rows of a [K] (1) or [H] (group) result.
std::vector<int> lane_lengths(const RaggedCache & cache, int seq, int layer, int copies);

}  // namespace pith
