// cache_returns.cpp - entries that leave a cache and may come back: what a compaction drops, and whole lanes.
#include <algorithm>
#include <cassert>

#include "cache/ragged_cache.h"

namespace pith {

bool RemovedEntries::empty() const {
    return std::ranges::all_of(positions, [](const auto & lane) { return lane.empty(); });
}

Result<RemovedEntries> RaggedCache::copy_removed(int seq, int layer, const Ragged<int32_t> & keep, int32_t end, Spill where,
                                                 const std::string & folder) const {
    RemovedEntries entries;
    entries.layer = layer;
    std::vector<std::vector<int64_t>> gone;  // [K] indices
    size_t n_gone = 0;
    for (int h = 0; h < n_kv_heads(layer); ++h) {
        const auto all = positions(lane(seq, layer, h));
        const auto kept = keep.row(h);
        auto & to_positions = entries.positions.emplace_back();
        auto & indices = gone.emplace_back();
        auto next = kept.begin();
        for (size_t j = 0; j < all.size() && all[j] < end; ++j) {
            if (next != kept.end() && static_cast<size_t>(*next) == j) {
                ++next;
                continue;
            }
            to_positions.push_back(all[j]);
            indices.push_back(static_cast<int64_t>(j));
        }
        n_gone += indices.size();
    }
    const LaneRows rows = layout_.rows(layer);
    PITH_ASSIGN_OR_RETURN(entries.rows, SpillMemory::make(n_gone * rows.bytes(), where, folder));
    uint8_t * to_k = entries.rows.data();
    for (int h = 0; h < n_kv_heads(layer); ++h) {
        const auto & indices = gone[static_cast<size_t>(h)];
        uint8_t * to_v = to_k + indices.size() * rows.bytes_k();
        for (size_t i = 0; i < indices.size();) {  // neighbours together
            size_t n = 1;
            while (i + n < indices.size() && indices[i + n] == indices[i] + static_cast<int64_t>(n)) { ++n; }
            store(layer).read(in_layer(seq, h), indices[i], static_cast<int64_t>(n), to_k, to_v);
            to_k += n * rows.bytes_k();
            to_v += n * rows.bytes_v();
            i += n;
        }
        to_k = to_v;
    }
    PITH_RETURN_IF_ERROR(store(layer).health());
    return entries;
}

void RaggedCache::put_back(int seq, const RemovedEntries & entries) noexcept {
    const LaneRows rows = layout_.rows(entries.layer);
    const uint8_t * back_k = entries.rows.data();
    LaneStore & lanes = store(entries.layer);
    for (int h = 0; h < n_kv_heads(entries.layer); ++h) {
        const int in = in_layer(seq, h);
        std::vector<int32_t> & there = positions_of(lane(seq, entries.layer, h));
        const auto before = std::ssize(there);
        const auto & back = entries.positions[static_cast<size_t>(h)];
        if (!back.empty()) { make_own(seq, entries.layer, h, std::ranges::lower_bound(there, back.front()) - there.begin()); }
        const uint8_t * back_v = back_k + back.size() * rows.bytes_k();
        // Two ascending lists become one, from the end on, so that nothing is overwritten before it has moved.
        size_t i = there.size();
        size_t j = back.size();
        there.resize(i + j);
        for (size_t to = i + j; j > 0; --to) {
            if (i > 0 && there[i - 1] > back[j - 1]) {
                --i;
                there[to - 1] = there[i];
                lanes.move(in, static_cast<int64_t>(i), static_cast<int64_t>(to - 1), 1);
            } else {
                --j;
                there[to - 1] = back[j];
                lanes.write(in, static_cast<int64_t>(to - 1), 1, back_k + j * rows.bytes_k(), back_v + j * rows.bytes_v());
            }
        }
        back_k = back_v + back.size() * rows.bytes_v();
        settle(seq, entries.layer, h, before, /*frees=*/true);
    }
    count_peak();
    check();
}

SavedLanes RaggedCache::save(int seq, std::span<const int> lengths, Layers which) const {
    SavedLanes saved;
    saved.layers = which;
    for (int layer = 0; layer < layout_.n_layers(); ++layer) {
        const LaneRows rows = layout_.rows(layer);
        for (int h = 0; h < n_kv_heads(layer); ++h) {
            const auto of_seq = static_cast<size_t>(lane(0, layer, h));
            const int n = is_of(layer, which) ? lengths[of_seq] : 0;
            const auto all = positions(lane(seq, layer, h));
            assert(static_cast<size_t>(n) <= all.size());
            saved.positions.emplace_back(all.begin(), all.begin() + n);
            auto & k = saved.k.emplace_back(static_cast<size_t>(n) * rows.bytes_k());
            auto & v = saved.v.emplace_back(static_cast<size_t>(n) * rows.bytes_v());
            store(layer).read(in_layer(seq, h), 0, n, k.data(), v.data());
            saved.size_bytes += static_cast<size_t>(n) * rows.bytes();
        }
    }
    return saved;
}

void RaggedCache::read(int seq, int layer, int kv_head, int64_t first, int64_t n, uint8_t * k, uint8_t * v) const {
    store(layer).read(in_layer(seq, kv_head), first, n, k, v);
}

Status RaggedCache::load(int seq, std::span<const SavedLanes * const> saved) {
    if (saved.empty()) { return {}; }
    std::vector<StoredLane> lanes(saved.front()->positions.size());
    for (const SavedLanes * one : saved) {
        for (size_t i = 0; i < lanes.size(); ++i) {
            if (!one->positions[i].empty()) { lanes[i] = {one->positions[i], one->k[i].data(), one->v[i].data()}; }
        }
    }
    return load(seq, lanes, saved.size() > 1 ? Layers::kAll : saved.front()->layers);
}

Status RaggedCache::load(int seq, std::span<const StoredLane> lanes, Layers which) {
    size_t longest = 0;
    for (const StoredLane & one : lanes) { longest = std::max(longest, one.positions.size()); }
    if (static_cast<int64_t>(longest) > capacity_) {
        PITH_RETURN_IF_ERROR(move_to(static_cast<int64_t>(longest), LaneStore::Use::kAlone));
    }
    for (int layer = 0; layer < layout_.n_layers(); ++layer) {
        if (!in_buckets(layer) || !is_of(layer, which)) { continue; }
        std::vector<int64_t> lengths = lengths_of(layer);
        for (int h = 0; h < n_kv_heads(layer); ++h) {
            int64_t & most = lengths[static_cast<size_t>(in_layer(seq, h))];
            most = std::max<int64_t>(most, std::ssize(lanes[static_cast<size_t>(lane(0, layer, h))].positions));
        }
        PITH_RETURN_IF_ERROR(make_own_room(layer, lengths));
    }
    for (size_t i = 0; i < lanes.size(); ++i) {
        positions_of(seq * n_lanes_of_seq() + static_cast<int>(i)).reserve(lanes[i].positions.size());
    }
    clear(seq, which);  // what can fail is done
    for (int layer = 0; layer < layout_.n_layers(); ++layer) {
        for (int h = 0; is_of(layer, which) && h < n_kv_heads(layer); ++h) {
            const StoredLane & from = lanes[static_cast<size_t>(lane(0, layer, h))];
            make_own(seq, layer, h, 0);
            store(layer).write(in_layer(seq, h), 0, std::ssize(from.positions), from.k, from.v);
            positions_of(lane(seq, layer, h)).assign(from.positions.begin(), from.positions.end());
            settle(seq, layer, h, 0, /*frees=*/false);
            if (layout_.governs(layer)) { peak_lane_entries_ = std::max(peak_lane_entries_, length(lane(seq, layer, h))); }
        }
    }
    count_peak();
    check();
    return health();
}

}  // namespace pith
