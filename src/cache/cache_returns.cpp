// cache_returns.cpp - entries that leave a cache and may come back: what a compaction drops, and whole lanes.
#include <algorithm>
#include <cassert>
#include <utility>

#include "cache/ragged_cache.h"

namespace pith {

// Calls it with each of their lanes: its layer and KV head, its positions, and where its rows of K and of V lie.
template <class Visit>
void RaggedCache::each_lane(const RestingLanes & entries, const Visit & visit) const {
    const uint8_t * k = entries.rows();
    size_t i = 0;
    for (const int layer : entries.layers) {
        const LaneRows rows = layout_.rows(layer);
        for (int h = 0; h < n_kv_heads(layer); ++h) {
            const std::vector<int32_t> & positions = entries.positions[i++];
            const uint8_t * v = k + positions.size() * rows.bytes_k();
            visit(layer, h, positions, k, v);
            k = v + positions.size() * rows.bytes_v();
        }
    }
}

// Adds the rows of their positions, all of which the lanes hold.
Result<RestingLanes> RaggedCache::with_rows(int seq, RestingLanes entries, Spill where, const std::string & folder) const {
    size_t bytes = 0;
    size_t i = 0;
    for (const int layer : entries.layers) {
        const size_t of_row = layout_.rows(layer).bytes();
        for (int h = 0; h < n_kv_heads(layer); ++h) { bytes += entries.positions[i++].size() * of_row; }
    }
    PITH_ASSIGN_OR_RETURN(entries.own, SpillMemory::make(bytes, where, folder));
    uint8_t * to = entries.own.data();
    each_lane(entries, [&](int layer, int h, std::span<const int32_t> wanted, const uint8_t * /*k*/, const uint8_t * /*v*/) {
        const LaneRows rows = layout_.rows(layer);
        const auto all = positions(lane(seq, layer, h));
        uint8_t * to_v = to + wanted.size() * rows.bytes_k();
        size_t from = 0;
        for (size_t j = 0; j < wanted.size();) {  // neighbours together
            while (all[from] != wanted[j]) { ++from; }
            size_t n = 1;
            while (j + n < wanted.size() && all[from + n] == wanted[j + n]) { ++n; }
            store(layer).read(in_layer(seq, h), static_cast<int64_t>(from), static_cast<int64_t>(n), to, to_v);
            to += n * rows.bytes_k();
            to_v += n * rows.bytes_v();
            from += n;
            j += n;
        }
        to = to_v;
    });
    for (const int layer : entries.layers) { PITH_RETURN_IF_ERROR(store(layer).health()); }
    return entries;
}

Result<RestingLanes> RaggedCache::save(int seq, std::span<const int> lengths, Layers which, Spill where,
                                       const std::string & folder) const {
    RestingLanes entries;
    for (int layer = 0; layer < layout_.n_layers(); ++layer) {
        if (!is_of(layer, which)) { continue; }
        entries.layers.push_back(layer);
        for (int h = 0; h < n_kv_heads(layer); ++h) {
            const auto n = static_cast<size_t>(lengths[static_cast<size_t>(lane(0, layer, h))]);
            const auto first = positions(lane(seq, layer, h)).first(n);
            entries.positions.emplace_back(first.begin(), first.end());
        }
    }
    return with_rows(seq, std::move(entries), where, folder);
}

Result<RestingLanes> RaggedCache::save_dropped(int seq, std::span<const LayerKeep> keeps, int32_t end, Spill where) const {
    RestingLanes entries;
    for (const LayerKeep & one : keeps) {
        entries.layers.push_back(one.layer);
        for (int h = 0; h < n_kv_heads(one.layer); ++h) {
            const auto all = positions(lane(seq, one.layer, h));
            const auto kept = one.keep->row(h);
            auto & dropped = entries.positions.emplace_back();
            auto next = kept.begin();
            for (size_t j = 0; j < all.size() && all[j] < end; ++j) {
                const bool stays = next != kept.end() && static_cast<size_t>(*next) == j;
                stays ? static_cast<void>(++next) : dropped.push_back(all[j]);
            }
        }
    }
    return with_rows(seq, std::move(entries), where, {});
}

void RaggedCache::put_back(int seq, const RestingLanes & entries) noexcept {
    each_lane(entries, [&](int layer, int h, std::span<const int32_t> back, const uint8_t * k, const uint8_t * v) {
        if (back.empty()) { return; }
        const LaneRows rows = layout_.rows(layer);
        LaneStore & lanes = store(layer);
        const int in = in_layer(seq, h);
        std::vector<int32_t> & there = positions_of(lane(seq, layer, h));
        const auto before = std::ssize(there);
        make_own(seq, layer, h, std::ranges::lower_bound(there, back.front()) - there.begin());
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
                lanes.write(in, static_cast<int64_t>(to - 1), 1, k + j * rows.bytes_k(), v + j * rows.bytes_v());
            }
        }
        settle(seq, layer, h, before, /*frees=*/true);
    });
    count_peak();
    check();
}

void RaggedCache::read(int seq, int layer, int kv_head, int64_t first, int64_t n, uint8_t * k, uint8_t * v) const {
    store(layer).read(in_layer(seq, kv_head), first, n, k, v);
}

Status RaggedCache::load(int seq, std::span<const RestingLanes * const> saved) {
    if (saved.empty()) { return {}; }
    size_t longest = 0;
    for (const RestingLanes * one : saved) {
        for (const auto & lane : one->positions) { longest = std::max(longest, lane.size()); }
    }
    if (static_cast<int64_t>(longest) > capacity_) {
        PITH_RETURN_IF_ERROR(move_to(static_cast<int64_t>(longest), LaneStore::Use::kAlone));
    }
    for (const RestingLanes * one : saved) {
        size_t i = 0;
        for (const int layer : one->layers) {
            std::vector<int64_t> lengths = lengths_of(layer);
            for (int h = 0; h < n_kv_heads(layer); ++h) {
                const auto n = std::ssize(one->positions[i++]);
                int64_t & most = lengths[static_cast<size_t>(in_layer(seq, h))];
                most = std::max<int64_t>(most, n);
                positions_of(lane(seq, layer, h)).reserve(static_cast<size_t>(n));
            }
            if (in_buckets(layer)) { PITH_RETURN_IF_ERROR(make_own_room(layer, lengths)); }
        }
    }
    for (const RestingLanes * one : saved) {  // what can fail is done
        for (const int layer : one->layers) {
            for (int h = 0; h < n_kv_heads(layer); ++h) { cut(seq, layer, h, 0); }
        }
    }
    for (const RestingLanes * one : saved) {
        each_lane(*one, [&](int layer, int h, std::span<const int32_t> from, const uint8_t * k, const uint8_t * v) {
            make_own(seq, layer, h, 0);
            store(layer).write(in_layer(seq, h), 0, std::ssize(from), k, v);
            positions_of(lane(seq, layer, h)).assign(from.begin(), from.end());
            settle(seq, layer, h, 0, /*frees=*/false);
            if (layout_.governs(layer)) { peak_lane_entries_ = std::max(peak_lane_entries_, static_cast<int>(from.size())); }
        });
    }
    count_peak();
    check();
    return health();
}

}  // namespace pith
