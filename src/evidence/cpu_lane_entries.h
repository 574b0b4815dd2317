// cpu_lane_entries.h - the entries of a layer's lanes, dealt out to ggml's threads in tiles. Stage: attention → evidence.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "attention/cpu/cpu_entries.h"
#include "attention/cpu/cpu_lane_attention.h"
#include "attention/lane_rotation.h"
#include "device/cpu_threads.h"
#include "device/device_work.h"

namespace pith {

// Whether the CPU's kernels read the entries of `flat`, a layer's K or V, in this runner's graphs: not on a device.
inline bool reads_entries(const GraphRunner & runner, const ggml_tensor * flat) {
    const auto format = format_of(flat->type);
    return runner.custom_operations() && !is_on_device(flat) && format &&
           can_attend(*format, *format, static_cast<int>(flat->ne[0]), 0);
}

struct LaneTile {
    int kv_head = 0;
    int first = 0;
    EntryRows entries;
};

// begin [K]: from which entry of each lane on; empty: from the first.
inline std::vector<LaneTile> tiles_of_lanes(const RaggedCache & cache, const ggml_tensor * flat, int seq, int layer,
                                            std::span<const int> begin = {}) {
    constexpr int kTile = 256;
    std::vector<LaneTile> tiles;
    for (int h = 0; h < cache.layout().shape.n_kv_heads; ++h) {
        const int length = cache.length(cache.lane(seq, layer, h));
        for (int first = begin.empty() ? 0 : begin[static_cast<size_t>(h)]; first < length; first += kTile) {
            const auto * rows =
                static_cast<const uint8_t *>(flat->data) + static_cast<size_t>(cache.cell(seq, layer, h, first)) * flat->nb[1];
            tiles.push_back(
                {h,
                 first,
                 {*format_of(flat->type), rows, flat->nb[1], std::min(kTile, length - first), static_cast<int>(flat->ne[0])}});
        }
    }
    return tiles;
}

// Calls visit(entries) with a tile's as they were before they went into their lane: rotated ones are rotated back, in f32.
template <class Visit>
void visit_as_made(const RaggedCache & cache, const ggml_tensor * flat, int layer, const LaneTile & tile, Visit visit) {
    const bool keys = flat == cache.k(layer);
    if (!(keys ? cache.layout().rotates_k() : cache.layout().rotates_v())) { return visit(tile.entries); }
    EntryRows made = tile.entries;
    const int64_t n_floats = int64_t{made.n} * made.dim;  // rows lie side by side
    std::vector<float> rows(static_cast<size_t>(n_floats));
    ggml_get_type_traits(flat->type)->to_float(made.rows, rows.data(), n_floats);
    rotate_as_made(cache.layout(), layer, tile.kv_head, rows, made.dim, keys);
    made.format = KvFormat::kF32;
    made.rows = rows.data();
    made.stride = static_cast<size_t>(made.dim) * sizeof(float);
    visit(made);
}

// Calls visit(tile) so for all tiles of the layer's lanes, each on one of the threads. REQUIRES: reads_entries().
template <class Visit>
Status for_each_lane_tile(GraphRunner & runner, const RaggedCache & cache, const ggml_tensor * flat, int seq, int layer,
                          Visit visit, std::span<const int> begin = {}) {
    const std::vector<LaneTile> tiles = tiles_of_lanes(cache, flat, seq, layer, begin);
    return run_tasks(runner, static_cast<int>(tiles.size()), [&](int i) {
        const LaneTile & tile = tiles[static_cast<size_t>(i)];
        visit_as_made(cache, flat, layer, tile, [&](const EntryRows & made) {
            visit(LaneTile{tile.kv_head, tile.first, made});
        });
    });
}

}  // namespace pith
