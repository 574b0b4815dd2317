// ragged_cache.cpp - lanes: append, compaction, cuts, and their accounting. Their memory: cache_storage.cpp; what comes back
// into them: cache_returns.cpp.
#include "cache/ragged_cache.h"

#include <algorithm>
#include <cassert>
#include <string>

namespace pith {

int64_t RaggedCache::n_entries(Layers which) const {
    int64_t n = 0;
    for (int l = 0; l < layout_.n_layers(); ++l) { n += is_of(l, which) ? layers_[static_cast<size_t>(l)].n_entries : 0; }
    return n;
}

size_t RaggedCache::needed_bytes(Layers which) const {
    size_t n = 0;
    for (int l = 0; l < layout_.n_layers(); ++l) {
        const auto entries = static_cast<size_t>(layers_[static_cast<size_t>(l)].n_entries);
        n += is_of(l, which) ? entries * layout_.rows(l).bytes() : 0;
    }
    return n;
}

size_t RaggedCache::allocated_bytes(Layers which) const {
    size_t n = 0;
    for (int l = 0; l < layout_.n_layers(); ++l) { n += is_of(l, which) ? unsettled(l).allocated_bytes() : 0; }
    return n;
}

size_t RaggedCache::shared_bytes() const {
    size_t n = 0;
    for (const Layer & layer : layers_) { n += layer.store->shared_bytes(); }
    return n;
}

RaggedCache::SharedRows RaggedCache::shared_rows(int seq, int layer, int kv_head) const {
    if (base_id_ == 0) { return {}; }
    const int of_lane = lane(seq, layer, kv_head);
    const auto n = std::min<int64_t>(store(layer).n_shared(in_layer(seq, kv_head)), length(of_lane));
    if (n == 0) { return {}; }
    return {base_id_ * positions_.size() + static_cast<uint64_t>(of_lane), static_cast<int>(n)};
}

RaggedCache::SharedRows RaggedCache::own_rows(int seq, int layer, int kv_head) const {
    const int of_lane = lane(seq, layer, kv_head);
    return {storage_id_ * positions_.size() + static_cast<uint64_t>(of_lane), length(of_lane)};
}

// Layers that changed side by side may have had their most at the same time; those that others have moved since, one after the
// other. So it is called before a cache moves its lanes, too.
void RaggedCache::count_peak() noexcept {
    size_t most = 0;
    size_t moved = 0;
    for (Layer & layer : layers_) {
        const size_t now = layer.store->allocated_bytes();
        most += std::max(layer.most_bytes, now);
        layer.most_bytes = 0;
        if (layer.n_moves != layer.store->n_moves()) { moved = std::max(moved, now); }
        layer.n_moves = layer.store->n_moves();
    }
    peak_bytes_ = std::max(peak_bytes_, most + moved);
}

// Both are there while it moves.
void RaggedCache::book_move(int layer, size_t bytes_before) noexcept {
    Layer & of = layers_[static_cast<size_t>(layer)];
    of.most_bytes = std::max(of.most_bytes, bytes_before + of.store->bytes_to_come());
    of.n_moves = of.store->n_moves();
}

void RaggedCache::make_own(int seq, int layer, int kv_head, int64_t first) noexcept {
    Layer & of = layers_[static_cast<size_t>(layer)];
    of.store->make_own(in_layer(seq, kv_head), first);
    of.most_bytes = std::max(of.most_bytes, of.store->allocated_bytes());
}

void RaggedCache::settle(int seq, int layer, int kv_head, int64_t before, bool frees) noexcept {
    Layer & of = layers_[static_cast<size_t>(layer)];
    const int now = length(lane(seq, layer, kv_head));
    assert(now <= of.store->capacity());
    of.n_entries += now - before;
    of.store->set_length(in_layer(seq, kv_head), now, frees);
    of.most_bytes = std::max(of.most_bytes, of.store->allocated_bytes());
}

size_t RaggedCache::bookkeeping_bytes() const {
    size_t n = positions_.size() * (2 * sizeof(positions_[0]) + 4 * sizeof(size_t));
    for (const auto * all : {&positions_, &turned_}) {
        for (const auto & lane : *all) { n += lane.capacity() * sizeof(int32_t); }
    }
    return n;
}

Status RaggedCache::reserve(int seq, int layer, int64_t n) {
    if (in_buckets(layer)) {
        std::vector<int64_t> lengths = lengths_of(layer);
        for (int64_t & length : lengths) { length += n; }
        return make_own_room(layer, lengths);
    }
    int64_t longest = 0;
    for (int h = 0; h < n_kv_heads(layer); ++h) { longest = std::max<int64_t>(longest, length(lane(seq, layer, h))); }
    if (longest + n <= capacity_) { return {}; }
    const Status twice = move_to(std::max(longest + n, 2 * capacity_), LaneStore::Use::kAlone);
    if (twice.code() != ErrorCode::kOutOfMemory) { return twice; }
    return move_to(longest + n, LaneStore::Use::kAlone);  // where addresses are limited
}

void RaggedCache::append(int seq, int layer, std::span<const int32_t> new_positions) {
    for (int h = 0; h < n_kv_heads(layer); ++h) {
        std::vector<int32_t> & there = positions_of(lane(seq, layer, h));
        const auto before = std::ssize(there);
        there.insert(there.end(), new_positions.begin(), new_positions.end());
        make_own(seq, layer, h, before);
        settle(seq, layer, h, before, /*frees=*/false);
        if (layout_.governs(layer)) { peak_lane_entries_ = std::max(peak_lane_entries_, static_cast<int>(there.size())); }
    }
    count_peak();
    check();
}

void RaggedCache::compact_layer(int seq, const LayerKeep & one) noexcept {
    Layer & of = layers_[static_cast<size_t>(one.layer)];
    of.to_compact = false;
    const size_t bytes_before = of.store->allocated_bytes();
    const uint64_t n_moves = of.store->n_moves();
    const bool moved = of.store->compact(*one.keep);
    if (of.store->n_moves() != n_moves || of.store->waits_to_move()) { book_move(one.layer, bytes_before); }
    for (int h = 0; h < n_kv_heads(one.layer); ++h) {
        std::vector<int32_t> & there = positions_of(lane(seq, one.layer, h));
        const auto before = std::ssize(there);
        const auto kept = one.keep->row(h);
        size_t n_in_place = 0;
        while (n_in_place < kept.size() && static_cast<size_t>(kept[n_in_place]) == n_in_place) { ++n_in_place; }
        // Runs of neighbours move together; ascending order makes the moves safe in place.
        for (size_t to = n_in_place; to < kept.size();) {
            const auto from = static_cast<size_t>(kept[to]);
            size_t n = 1;
            while (to + n < kept.size() && static_cast<size_t>(kept[to + n]) == from + n) { ++n; }
            if (!moved) {
                of.store->move(in_layer(seq, h), static_cast<int64_t>(from), static_cast<int64_t>(to), static_cast<int64_t>(n));
            }
            std::copy_n(there.begin() + static_cast<int64_t>(from), n, there.begin() + static_cast<int64_t>(to));
            to += n;
        }
        there.resize(kept.size());
        std::vector<int32_t> & turned = turned_of(lane(seq, one.layer, h));
        size_t n_turned = 0;
        while (n_turned < kept.size() && static_cast<size_t>(kept[n_turned]) < turned.size()) {
            turned[n_turned] = turned[static_cast<size_t>(kept[n_turned])];
            ++n_turned;
        }
        turned.resize(n_turned);
        settle(seq, one.layer, h, before, /*frees=*/true);
        // A fork has copied the pages that entries moved into; those behind them it only read.
        if (n_in_place < kept.size()) { make_own(seq, one.layer, h, static_cast<int64_t>(n_in_place)); }
    }
}

int64_t RaggedCache::compact(int seq, std::span<const LayerKeep> keeps, const RunTasks & run_tasks) noexcept {
    const int64_t before = n_entries();
    count_peak();
    for (const LayerKeep & one : keeps) { layers_[static_cast<size_t>(one.layer)].to_compact = true; }
    for (const LayerKeep & one : keeps) {  // of a device one at a time: its memory holds no more than one layer twice
        if (!in_buckets(one.layer)) { continue; }
        compact_layer(seq, one);
        count_peak();
        storage_id_ = next_storage_id();
    }
    const auto one_layer = [&](int i) noexcept {
        const LayerKeep & one = keeps[static_cast<size_t>(i)];
        if (layers_[static_cast<size_t>(one.layer)].to_compact) { compact_layer(seq, one); }
    };
    try {
        static_cast<void>(run_tasks(static_cast<int>(keeps.size()), one_layer));
    } catch (...) {
        // Once a layer has moved there is no way back; what the threads left is done here.
    }
    for (const LayerKeep & one : keeps) {
        if (layers_[static_cast<size_t>(one.layer)].to_compact) { compact_layer(seq, one); }
    }
    count_peak();
    check();
    return before - n_entries();
}

void RaggedCache::drop_first(int seq, int layer, int n) noexcept {
    for (int h = 0; h < n_kv_heads(layer); ++h) {
        std::vector<int32_t> & there = positions_of(lane(seq, layer, h));
        const auto before = std::ssize(there);
        store(layer).move(in_layer(seq, h), n, 0, before - n);
        std::copy(there.begin() + n, there.end(), there.begin());
        there.resize(static_cast<size_t>(before - n));
        std::vector<int32_t> & turned = turned_of(lane(seq, layer, h));
        turned.erase(turned.begin(), turned.begin() + std::min<std::ptrdiff_t>(n, std::ssize(turned)));
        settle(seq, layer, h, before, /*frees=*/true);
        make_own(seq, layer, h, 0);
    }
    count_peak();
    check();
}

void RaggedCache::hide_last(int seq, int layer, int n) noexcept {
    for (int h = 0; h < n_kv_heads(layer); ++h) {
        std::vector<int32_t> & there = positions_of(lane(seq, layer, h));
        const auto before = std::ssize(there);
        there.resize(static_cast<size_t>(before - n));
        settle(seq, layer, h, before, /*frees=*/false);
    }
    check();
}

// Cuts a lane back to its first n entries.
void RaggedCache::cut(int seq, int layer, int kv_head, int64_t n) noexcept {
    std::vector<int32_t> & there = positions_of(lane(seq, layer, kv_head));
    const auto before = std::ssize(there);
    there.resize(static_cast<size_t>(n));
    std::vector<int32_t> & turned = turned_of(lane(seq, layer, kv_head));
    turned.resize(std::min(turned.size(), there.size()));
    settle(seq, layer, kv_head, before, /*frees=*/true);
}

void RaggedCache::truncate(int seq, int layer, std::span<const int> lengths) {
    for (int h = 0; h < n_kv_heads(layer); ++h) {
        cut(seq, layer, h, std::min(lengths[static_cast<size_t>(h)], length(lane(seq, layer, h))));
    }
    check();
}

void RaggedCache::truncate_to_positions(int seq, int layer, int32_t end) {
    for (int h = 0; h < n_kv_heads(layer); ++h) {
        const auto all = positions(lane(seq, layer, h));
        cut(seq, layer, h, std::ranges::lower_bound(all, end) - all.begin());
    }
    check();
}

void RaggedCache::clear(int seq, Layers which) {
    for (int l = 0; l < layout_.n_layers(); ++l) {
        for (int h = 0; is_of(l, which) && h < n_kv_heads(l); ++h) { cut(seq, l, h, 0); }
    }
    if (which == Layers::kAll) { shift_ = 0; }
    check();
}

Status RaggedCache::check_invariants() const {
    for (int l = 0; l < layout_.n_layers(); ++l) {
        int64_t n = 0;
        for (int seq = 0; seq < layout_.n_seqs; ++seq) {
            for (int h = 0; h < n_kv_heads(l); ++h) {
                const auto all = positions(lane(seq, l, h));
                n += std::ssize(all);
                const bool ascending = std::ranges::adjacent_find(all, std::greater_equal<>()) == all.end();
                if (!ascending || std::ssize(all) > unsettled(l).capacity()) {
                    return {ErrorCode::kInternal, "KV cache layer " + std::to_string(l) + ", head " + std::to_string(h) +
                                                      ": positions do not ascend, or too many entries"};
                }
                if (!stand_in_order(turned(lane(seq, l, h)), all, shift_)) {
                    return {ErrorCode::kInternal, "KV cache layer " + std::to_string(l) + ", head " + std::to_string(h) +
                                                      ": where its keys stand does not ascend"};
                }
            }
        }
        const Layer & layer = layers_[static_cast<size_t>(l)];
        const size_t bytes = layer.store->allocated_bytes() + layer.store->shared_bytes();
        if (n != layer.n_entries || bytes < static_cast<size_t>(n) * layout_.rows(l).bytes()) {
            return {ErrorCode::kInternal, "KV cache accounting, layer " + std::to_string(l) + ": counted " + std::to_string(n) +
                                              " entries, booked " + std::to_string(layer.n_entries) + " in " +
                                              std::to_string(bytes) + " bytes"};
        }
    }
    return {};
}

void RaggedCache::check() const {
#ifndef NDEBUG
    assert(check_invariants().ok());
#endif
}

}  // namespace pith
