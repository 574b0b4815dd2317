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
    entries.shift = shift_;
    for (int layer = 0; layer < layout_.n_layers(); ++layer) {
        if (!is_of(layer, which)) { continue; }
        entries.layers.push_back(layer);
        for (int h = 0; h < n_kv_heads(layer); ++h) {
            const auto n = static_cast<size_t>(lengths[static_cast<size_t>(lane(0, layer, h))]);
            const auto first = positions(lane(seq, layer, h)).first(n);
            entries.positions.emplace_back(first.begin(), first.end());
            const auto standing = turned(lane(seq, layer, h));
            entries.turned.emplace_back(standing.begin(), standing.begin() + std::min(std::ssize(standing), std::ssize(first)));
        }
    }
    return with_rows(seq, std::move(entries), where, folder);
}

Result<RestingLanes> RaggedCache::save_dropped(int seq, std::span<const LayerKeep> keeps, int32_t end, Spill where) const {
    RestingLanes entries;
    entries.shift = shift_;
    for (const LayerKeep & one : keeps) {
        entries.layers.push_back(one.layer);
        for (int h = 0; h < n_kv_heads(one.layer); ++h) {
            const auto all = positions(lane(seq, one.layer, h));
            const auto kept = one.keep->row(h);
            auto & dropped = entries.positions.emplace_back();
            auto & dropped_turned = entries.turned.emplace_back();
            const auto standing = turned(lane(seq, one.layer, h));
            auto next = kept.begin();
            for (size_t j = 0; j < all.size() && all[j] < end; ++j) {
                if (next != kept.end() && static_cast<size_t>(*next) == j) {
                    ++next;
                    continue;
                }
                dropped.push_back(all[j]);
                if (j < standing.size()) { dropped_turned.push_back(standing[j]); }
            }
        }
    }
    return with_rows(seq, std::move(entries), where, {});
}

void RaggedCache::put_back(int seq, const RestingLanes & entries) noexcept {
    size_t of_entries = 0;
    each_lane(entries, [&](int layer, int h, std::span<const int32_t> back, const uint8_t * k, const uint8_t * v) {
        const std::vector<int32_t> & back_turned = entries.turned[of_entries++];
        if (back.empty()) { return; }
        const LaneRows rows = layout_.rows(layer);
        LaneStore & lanes = store(layer);
        const int in = in_layer(seq, h);
        std::vector<int32_t> & there = positions_of(lane(seq, layer, h));
        const auto before = std::ssize(there);
        make_own(seq, layer, h, std::ranges::lower_bound(there, back.front()) - there.begin());
        // Turned keys stand in front of all others, here and there, in the order of their positions.
        std::vector<int32_t> & standing = turned_of(lane(seq, layer, h));
        standing.insert(standing.end(), back_turned.begin(), back_turned.end());
        std::ranges::sort(standing);
        // Two ascending lists become one, from the end on, so that nothing is overwritten before it has moved.
        size_t i = there.size();
        size_t j = back.size();
        there.resize(i + j);
        for (size_t to = i + j; j > 0;) {  // neighbours together
            size_t n = 0;
            while (n < i && there[i - 1 - n] > back[j - 1]) { ++n; }
            if (n > 0) {
                i -= n;
                to -= n;
                const auto first = there.begin() + static_cast<std::ptrdiff_t>(i);
                std::copy_backward(first, first + static_cast<std::ptrdiff_t>(n),
                                   there.begin() + static_cast<std::ptrdiff_t>(to + n));
                lanes.move(in, static_cast<int64_t>(i), static_cast<int64_t>(to), static_cast<int64_t>(n));
            }
            n = 0;
            while (n < j && (i == 0 || back[j - 1 - n] > there[i - 1])) { ++n; }
            j -= n;
            to -= n;
            std::copy_n(back.begin() + static_cast<std::ptrdiff_t>(j), n, there.begin() + static_cast<std::ptrdiff_t>(to));
            lanes.write(in, static_cast<int64_t>(to), static_cast<int64_t>(n), k + j * rows.bytes_k(), v + j * rows.bytes_v());
        }
        settle(seq, layer, h, before, /*frees=*/true);
    });
    count_peak();
    check();
}

void RaggedCache::read(int seq, int layer, int kv_head, int64_t first, int64_t n, uint8_t * k, uint8_t * v) const {
    store(layer).read(in_layer(seq, kv_head), first, n, k, v);
}

// Room for them in place of what their lanes hold, or behind that.
Status RaggedCache::make_room_for(int seq, const RestingLanes & entries, bool behind) {
    size_t i = 0;
    for (const int layer : entries.layers) {
        std::vector<int64_t> lengths = lengths_of(layer);
        for (int h = 0; h < n_kv_heads(layer); ++h) {
            const int at = lane(seq, layer, h);
            const int64_t n = std::ssize(entries.positions[i]) + (behind ? length(at) : 0);
            int64_t & most = lengths[static_cast<size_t>(in_layer(seq, h))];
            most = std::max<int64_t>(most, n);
            std::vector<int32_t> & there = positions_of(at);
            const auto room = static_cast<size_t>(n);
            if (there.capacity() < room) { there.reserve(behind ? std::max(room, 2 * there.capacity()) : room); }
            turned_of(at).reserve(entries.turned[i++].size());
        }
        if (!in_buckets(layer)) { continue; }
        PITH_RETURN_IF_ERROR(make_whole(layer, nullptr));
        PITH_RETURN_IF_ERROR(make_own_room(layer, lengths));
    }
    return {};
}

// REQUIRES: there is room for them, and no key of the lanes has turned.
void RaggedCache::write_behind(int seq, const RestingLanes & entries) noexcept {
    size_t i = 0;
    each_lane(entries, [&](int layer, int h, std::span<const int32_t> from, const uint8_t * k, const uint8_t * v) {
        const int at = lane(seq, layer, h);
        const int64_t before = length(at);
        make_own(seq, layer, h, before);
        store(layer).write(in_layer(seq, h), before, std::ssize(from), k, v);
        entries.let_go(k, v + from.size() * layout_.rows(layer).bytes_v());
        positions_of(at).insert(positions_of(at).end(), from.begin(), from.end());
        turned_of(at) = entries.turned[i++];
        settle(seq, layer, h, before, /*frees=*/false);
        if (layout_.governs(layer)) { peak_lane_entries_ = std::max(peak_lane_entries_, length(at)); }
    });
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
    for (const RestingLanes * one : saved) { PITH_RETURN_IF_ERROR(make_room_for(seq, *one, /*behind=*/false)); }
    for (const RestingLanes * one : saved) {  // what can fail is done
        shift_ = one->shift;
        for (const int layer : one->layers) {
            for (int h = 0; h < n_kv_heads(layer); ++h) { cut(seq, layer, h, 0); }
        }
    }
    for (const RestingLanes * one : saved) { write_behind(seq, *one); }
    count_peak();
    check();
    return health();
}

Status RaggedCache::load_behind(int seq, const RestingLanes & entries) {
    assert(entries.shift == shift_);
    PITH_RETURN_IF_ERROR(make_room_for(seq, entries, /*behind=*/true));
    write_behind(seq, entries);
    count_peak();
    check();
    return health();
}

std::vector<int32_t> RaggedCache::standing(int lane) const {
    const auto turned = this->turned(lane);
    const auto all = positions(lane);
    std::vector<int32_t> places(turned.begin(), turned.end());
    places.reserve(all.size());
    for (const int32_t position : all.subspan(turned.size())) { places.push_back(position - shift_); }
    return places;
}

void RaggedCache::swap_keys(TurnedKeys & keys) noexcept {
    uint8_t * rows = keys.rows.data();
    for (int layer = 0; layer < layout_.n_layers(); ++layer) {
        const size_t of_row = layout_.rows(layer).bytes_k();
        for (int h = 0; h < n_kv_heads(layer); ++h) {
            const int at = lane(0, layer, h);
            const auto i = static_cast<size_t>(at);
            const int64_t n = std::min(keys.lengths[i], length(at));
            make_own(0, layer, h, 0);
            const auto tile = static_cast<int64_t>(keys.scratch.size() / of_row);
            for (int64_t first = 0; first < n; first += tile) {
                const int64_t m = std::min(tile, n - first);
                uint8_t * here = rows + static_cast<size_t>(first) * of_row;
                const size_t bytes = static_cast<size_t>(m) * of_row;
                store(layer).read(h, first, m, keys.scratch.data(), nullptr);
                store(layer).write(h, first, m, here, nullptr);
                std::copy_n(keys.scratch.data(), bytes, here);
            }
            rows += static_cast<size_t>(keys.lengths[i]) * of_row;
            turned_of(at).swap(keys.standing[i]);
            turned_of(at).resize(std::min(turned_of(at).size(), positions(at).size()));
        }
    }
    std::swap(shift_, keys.shift);
    count_peak();
    check();
}

}  // namespace pith
