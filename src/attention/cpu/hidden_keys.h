// hidden_keys.h - keys that not all later queries see: a gate said no to them, or they leave a layer's window. Stage:
// attention.
//
// Query i sees a hidden key at position j iff j <= i and i - j < n_recent: n_recent 1 is the query's own key. The other keys
// are seen as ever. Paper: In-context KV-Cache Eviction for LLMs via Attention-Gate (Zeng et al., 2024), sections 3.3 and 4.4.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "cache/layer_lanes.h"

namespace pith {

// Of one layer.
struct HiddenKeys {
    std::vector<std::vector<int32_t>> positions;  // [K] ascending; those that a policy evicted since need not be in the lane
    int n_recent = 1;

    bool any() const {
        return std::ranges::any_of(positions, [](const auto & lane) { return !lane.empty(); });
    }
};

// When the entries of a lane disappear.
struct HiddenLane {
    static constexpr int kAlign = 64;  // kernels look at entries in blocks of so many
    static constexpr int32_t kNever = std::numeric_limits<int32_t>::max();

    int first = 0;                // entries before it never do; a multiple of kAlign
    bool ascending = false;       // what follows is: entries disappear in their order
    std::vector<int32_t> hidden;  // [length - first] first query position that no longer sees the entry; empty: none disappears

    bool any() const { return !hidden.empty(); }
    bool hides(int entry, int32_t query_position) const {
        return entry >= first && any() && hidden[static_cast<size_t>(entry - first)] <= query_position;
    }
};

// lane: the positions of its entries.
inline void fill_hidden_lane(const HiddenKeys & keys, int kv_head, std::span<const int32_t> lane, HiddenLane & out) {
    const auto & listed = keys.positions[static_cast<size_t>(kv_head)];
    out.hidden.clear();
    out.ascending = false;
    if (listed.empty()) { return; }
    size_t j = static_cast<size_t>(std::ranges::lower_bound(lane, listed.front()) - lane.begin());
    out.first = static_cast<int>(j) / HiddenLane::kAlign * HiddenLane::kAlign;
    out.hidden.assign(lane.size() - static_cast<size_t>(out.first), HiddenLane::kNever);
    for (const int32_t position : listed) {
        while (j < lane.size() && lane[j] < position) { ++j; }
        if (j < lane.size() && lane[j] == position) {
            out.hidden[j - static_cast<size_t>(out.first)] = position + keys.n_recent;
        }
    }
}

// Entries of a layer with a window. lane: their positions, of those that some query sees.
inline void fill_window_lane(const LayerLanes & layer, std::span<const int32_t> lane, HiddenLane & out) {
    out.first = 0;
    out.ascending = true;
    out.hidden.resize(lane.size());
    for (size_t j = 0; j < lane.size(); ++j) { out.hidden[j] = static_cast<int32_t>(layer.hidden_from(lane[j])); }
}

}  // namespace pith
