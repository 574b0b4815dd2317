// lane_tiles.h - a lane in tiles of entries, so that what is computed from it needs bounded scratch. Stage: attention →
// evidence.
#pragma once

#include <algorithm>
#include <cstdint>

#include "attention/lane_rotation.h"
#include "cache/ragged_cache.h"
#include "core/ragged.h"
#include "device/graph_runner.h"
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

// Whether entries [first, first + n) of a lane lie side by side: not where it shares a start with others'.
inline bool are_in_one_piece(const RaggedCache & cache, int seq, int layer, int kv_head, int first, int n) {
    if (!cache.in_buckets(layer)) { return true; }
    const LanePieces pieces = cache.pieces(seq, layer, kv_head);
    return pieces.is_one() || first >= pieces.n || (pieces.rows.empty() && first + n <= pieces.n);
}

inline constexpr int kRowsAtOnce = 16384;  // back ends bound the number of rows by that of their work groups

// Operations of gathered_entries(), at most.
inline size_t gathered_nodes(int n) {
    return 2 * static_cast<size_t>(n / kRowsAtOnce + 1);
}

// Wherever they lie, f32 [d, n]. An operation for every kRowsAtOnce of them, and one that joins it to those before.
inline ggml_tensor * gathered_entries(GraphBuild & build, const RaggedCache & cache, ggml_tensor * flat, int seq, int layer,
                                      int kv_head, int first, int n) {
    ggml_tensor * all = nullptr;
    for (int i = 0; i < n; i += kRowsAtOnce) {
        const int m = std::min(kRowsAtOnce, n - i);
        ggml_tensor * cells =
            build.input<int32_t>(GGML_TYPE_I32, m, 1, [&cache, seq, layer, kv_head, begin = first + i](std::span<int32_t> to) {
                for (size_t j = 0; j < to.size(); ++j) {
                    to[j] = static_cast<int32_t>(cache.cell(seq, layer, kv_head, begin + static_cast<int64_t>(j)));
                }
            });
        ggml_tensor * rows = ggml_get_rows(build.ctx(), flat, cells);
        all = all == nullptr ? rows : ggml_concat(build.ctx(), all, rows, 1);
    }
    return all;
}

// Entries [first, first + n) of a lane as they lie there, f32 [d, n]; `flat` is the layer's K or V.
inline ggml_tensor * entries_f32(GraphBuild & build, const RaggedCache & cache, ggml_tensor * flat, int seq, int layer,
                                 int kv_head, int first, int n) {
    if (!are_in_one_piece(cache, seq, layer, kv_head, first, n)) {
        return gathered_entries(build, cache, flat, seq, layer, kv_head, first, n);
    }
    ggml_context * ctx = build.ctx();
    ggml_tensor * rows = ggml_view_2d(ctx, flat, flat->ne[0], n, flat->nb[1],
                                      flat->nb[1] * static_cast<size_t>(cache.cell(seq, layer, kv_head, first)));
    return rows->type == GGML_TYPE_F32 ? rows : ggml_cast(ctx, rows, GGML_TYPE_F32);
}

// The same as they were before they went into the lane. Up to kMadeNodes operations.
inline constexpr size_t kMadeNodes = 8;
inline ggml_tensor * entries_as_made(GraphBuild & build, const RaggedCache & cache, ggml_tensor * flat, int seq, int layer,
                                     int kv_head, int first, int n) {
    return LaneRotation(build, cache.layout())
        .rows_as_made(layer, kv_head, entries_f32(build, cache, flat, seq, layer, kv_head, first, n), flat == cache.k(layer));
}

// The lanes' lengths, each `copies` times: the rows of a [K] (1) or [H] (group) result.
std::vector<int> lane_lengths(const RaggedCache & cache, int seq, int layer, int copies);

}  // namespace pith
