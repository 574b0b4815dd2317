// lane_bytes.cpp - rows to pages.
#include "plan/lane_bytes.h"

#include <algorithm>

#include "cache/bucket_lanes.h"
#include "cache/page_memory.h"

namespace pith {
namespace {

size_t lane_bytes(const LaneRows & rows, int64_t n) {
    return page_ceil(static_cast<size_t>(n) * rows.bytes_k()) + page_ceil(static_cast<size_t>(n) * rows.bytes_v());
}

}  // namespace

size_t page_bytes(const CacheLayout & layout, std::span<const int> lengths) {
    size_t bytes = 0;
    size_t lane = 0;
    for (int l = 0; l < layout.n_layers(); ++l) {
        for (int h = 0; h < layout.lanes(l).n_kv_heads; ++h) { bytes += lane_bytes(layout.rows(l), lengths[lane++]); }
    }
    return bytes;
}

size_t window_bytes(const CacheLayout & layout, int64_t n_new) {
    size_t bytes = 0;
    for (int l = 0; l < layout.n_layers(); ++l) {
        if (layout.governs(l)) { continue; }
        const int64_t most = layout.window(l) + CacheLayout::kWindowStep + n_new;
        bytes += static_cast<size_t>(layout.lanes(l).n_kv_heads) * lane_bytes(layout.rows(l), most);
    }
    return bytes;
}

size_t ungoverned_bytes(const CacheLayout & layout, int64_t n_new) {
    return window_bytes(layout, n_new) + 2 * layout.state_bytes;
}

void put_lanes(const CacheLayout & layout, RunRequest & request) {
    request.n_lanes = layout.shape.n_lanes();
    request.n_kv_heads = layout.shape.n_kv_heads;
    request.entry_bytes = layout.entry_bytes();
    request.page_bytes = page_size_bytes();
    if (layout.any_on_device()) {
        // Lanes are rounded up to steps there, and a layer is compacted into a buffer beside its own.
        request.page_bytes = std::max(request.page_bytes, static_cast<size_t>(BucketLanes::kStep) * request.entry_bytes / 2);
        request.n_lanes += request.n_kv_heads;
    }
    request.ungoverned_bytes = [&layout](int64_t n_new) { return ungoverned_bytes(layout, n_new); };
}

}  // namespace pith
