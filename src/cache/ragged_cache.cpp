// ragged_cache.cpp - lanes: append, compaction, what comes back, and their accounting. Their memory: cache_storage.cpp.
#include "cache/ragged_cache.h"

#include <algorithm>
#include <cassert>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

namespace pith {

void RaggedCache::make_own(int lane, int64_t first) {
    const auto i = static_cast<size_t>(lane);
    const auto own = [&](size_t & shared, size_t row_bytes) {
        const size_t page = page_size_bytes();
        const size_t begin = static_cast<size_t>(first) * row_bytes / page * page;  // of the page that the row begins in
        if (begin >= shared) { return; }
        allocated_bytes_ += shared - begin;
        shared_bytes_ -= shared - begin;
        shared = begin;
    };
    own(shared_k_[i], layout_.row_bytes_k());
    own(shared_v_[i], layout_.row_bytes_v());
    peak_bytes_ = std::max(peak_bytes_, allocated_bytes_);
}

Status RaggedCache::reserve(int seq, int layer, int64_t n) {
    int64_t longest = 0;
    for (int h = 0; h < layout_.shape.n_kv_heads; ++h) { longest = std::max<int64_t>(longest, length(lane(seq, layer, h))); }
    if (longest + n <= stride_) { return {}; }
    const Status twice = grow(std::max(longest + n, 2 * stride_));
    return twice.code() == ErrorCode::kOutOfMemory ? grow(longest + n) : twice;  // where addresses are limited
}

void RaggedCache::set_length(int layer, int lane_in_layer, int lane, int64_t new_length, bool free_pages) {
    const auto i = static_cast<size_t>(lane);
    const auto book = [&](size_t & pages, size_t & shared, ggml_tensor * tensor, size_t row_bytes) {
        const size_t used = page_ceil(static_cast<size_t>(new_length) * row_bytes);
        const size_t now = free_pages ? used : std::max(used, pages);
        if (now < pages) {
            LayerStore & store = layers_[static_cast<size_t>(layer)];
            const auto start = static_cast<size_t>(lane_data(tensor, row_bytes, lane_in_layer, stride_) - store.memory.data());
            store.memory.release(start + now, start + pages);
        }
        const size_t still_shared = std::min(shared, now);
        allocated_bytes_ = allocated_bytes_ - (pages - shared) + (now - still_shared);
        shared_bytes_ -= shared - still_shared;
        shared = still_shared;
        pages = now;
    };
    book(pages_k_[i], shared_k_[i], k(layer), layout_.row_bytes_k());
    book(pages_v_[i], shared_v_[i], v(layer), layout_.row_bytes_v());
    peak_bytes_ = std::max(peak_bytes_, allocated_bytes_);
    peak_lane_entries_ = std::max(peak_lane_entries_, static_cast<int>(new_length));
}

void RaggedCache::append(int seq, int layer, std::span<const int32_t> new_positions) {
    for (int h = 0; h < layout_.shape.n_kv_heads; ++h) {
        const int id = lane(seq, layer, h);
        auto & lane_positions = positions_[static_cast<size_t>(id)];
        make_own(id, length(id));
        lane_positions.insert(lane_positions.end(), new_positions.begin(), new_positions.end());
        n_entries_ += static_cast<int64_t>(new_positions.size());
        assert(length(id) <= stride_);
        set_length(layer, seq * layout_.shape.n_kv_heads + h, id, length(id), false);
    }
    check();
}

int64_t RaggedCache::compact(int seq, int layer, const Ragged<int32_t> & keep) {
    int64_t n_gone = 0;
    for (int h = 0; h < layout_.shape.n_kv_heads; ++h) {
        const int id = lane(seq, layer, h);
        const int in_layer = seq * layout_.shape.n_kv_heads + h;
        auto & lane_positions = positions_[static_cast<size_t>(id)];
        const auto kept = keep.row(h);
        uint8_t * rows_k = lane_data(k(layer), layout_.row_bytes_k(), in_layer, stride_);
        uint8_t * rows_v = lane_data(v(layer), layout_.row_bytes_v(), in_layer, stride_);
        size_t n_in_place = 0;
        while (n_in_place < kept.size() && static_cast<size_t>(kept[n_in_place]) == n_in_place) { ++n_in_place; }
        if (n_in_place < kept.size()) { make_own(id, static_cast<int64_t>(n_in_place)); }
        // Runs of neighbours move together; ascending order makes the moves safe in place.
        for (size_t to = 0; to < kept.size();) {
            const auto from = static_cast<size_t>(kept[to]);
            size_t n = 1;
            while (to + n < kept.size() && static_cast<size_t>(kept[to + n]) == from + n) { ++n; }
            if (from != to) {
                const auto move = [=](uint8_t * rows, size_t row_bytes) {
                    std::memmove(rows + to * row_bytes, rows + from * row_bytes, n * row_bytes);
                };
                move(rows_k, layout_.row_bytes_k());
                move(rows_v, layout_.row_bytes_v());
                std::copy_n(lane_positions.begin() + static_cast<int64_t>(from), n,
                            lane_positions.begin() + static_cast<int64_t>(to));
            }
            to += n;
        }
        n_gone += static_cast<int64_t>(lane_positions.size() - kept.size());
        lane_positions.resize(kept.size());
        set_length(layer, in_layer, id, length(id), true);
    }
    n_entries_ -= n_gone;
    check();
    return n_gone;
}

// Cuts a lane back to its first n entries.
void RaggedCache::cut(int lane, int64_t n) {
    const int n_kv = layout_.shape.n_kv_heads;
    const int in_seq = lane % layout_.shape.n_lanes();
    n_entries_ -= length(lane) - n;
    positions_[static_cast<size_t>(lane)].resize(static_cast<size_t>(n));
    set_length(in_seq / n_kv, lane / layout_.shape.n_lanes() * n_kv + in_seq % n_kv, lane, n, true);
}

void RaggedCache::truncate(int seq, int layer, std::span<const int> lengths) {
    for (int h = 0; h < layout_.shape.n_kv_heads; ++h) {
        const int id = lane(seq, layer, h);
        cut(id, std::min(lengths[static_cast<size_t>(h)], length(id)));
    }
    check();
}

void RaggedCache::truncate_to_positions(int lane, int32_t end) {
    const auto all = positions(lane);
    cut(lane, std::ranges::lower_bound(all, end) - all.begin());
    check();
}

bool RemovedEntries::empty() const {
    return std::ranges::all_of(positions, [](const auto & lane) { return lane.empty(); });
}

Result<RemovedEntries> RaggedCache::copy_removed(int seq, int layer, const Ragged<int32_t> & keep, int32_t end,
                                                 Spill where) const {
    RemovedEntries entries;
    entries.layer = layer;
    std::vector<std::vector<size_t>> gone;  // [K] indices
    size_t n_gone = 0;
    for (int h = 0; h < layout_.shape.n_kv_heads; ++h) {
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
            indices.push_back(j);
        }
        n_gone += indices.size();
    }
    PITH_ASSIGN_OR_RETURN(entries.rows, SpillMemory::make(n_gone * layout_.entry_bytes(), where));
    uint8_t * to = entries.rows.data();
    for (int h = 0; h < layout_.shape.n_kv_heads; ++h) {
        const int in_layer = seq * layout_.shape.n_kv_heads + h;
        const auto copy = [&](ggml_tensor * tensor, size_t row_bytes) {
            const uint8_t * rows = lane_data(tensor, row_bytes, in_layer, stride_);
            for (const size_t j : gone[static_cast<size_t>(h)]) {
                std::memcpy(to, rows + j * row_bytes, row_bytes);
                to += row_bytes;
            }
        };
        copy(k(layer), layout_.row_bytes_k());
        copy(v(layer), layout_.row_bytes_v());
    }
    return entries;
}

void RaggedCache::put_back(int seq, const RemovedEntries & entries) noexcept {
    const size_t bytes_k = layout_.row_bytes_k();
    const size_t bytes_v = layout_.row_bytes_v();
    const uint8_t * back_k = entries.rows.data();
    for (int h = 0; h < layout_.shape.n_kv_heads; ++h) {
        const int id = lane(seq, entries.layer, h);
        const int in_layer = seq * layout_.shape.n_kv_heads + h;
        auto & there = positions_[static_cast<size_t>(id)];
        const auto & back = entries.positions[static_cast<size_t>(h)];
        if (!back.empty()) { make_own(id, std::ranges::lower_bound(there, back.front()) - there.begin()); }
        const uint8_t * back_v = back_k + back.size() * bytes_k;
        uint8_t * rows_k = lane_data(k(entries.layer), bytes_k, in_layer, stride_);
        uint8_t * rows_v = lane_data(v(entries.layer), bytes_v, in_layer, stride_);
        // Two ascending lists become one, from the end on, so that nothing is overwritten before it has moved.
        size_t i = there.size();
        size_t j = back.size();
        there.resize(i + j);
        for (size_t to = i + j; j > 0; --to) {
            if (i > 0 && there[i - 1] > back[j - 1]) {
                --i;
                there[to - 1] = there[i];
                std::memmove(rows_k + (to - 1) * bytes_k, rows_k + i * bytes_k, bytes_k);
                std::memmove(rows_v + (to - 1) * bytes_v, rows_v + i * bytes_v, bytes_v);
            } else {
                --j;
                there[to - 1] = back[j];
                std::memcpy(rows_k + (to - 1) * bytes_k, back_k + j * bytes_k, bytes_k);
                std::memcpy(rows_v + (to - 1) * bytes_v, back_v + j * bytes_v, bytes_v);
            }
        }
        back_k = back_v + back.size() * bytes_v;
        n_entries_ += static_cast<int64_t>(back.size());
        set_length(entries.layer, in_layer, id, static_cast<int64_t>(there.size()), true);
    }
    check();
}

void RaggedCache::clear(int seq) {
    for (int i = 0; i < layout_.shape.n_lanes(); ++i) { cut(seq * layout_.shape.n_lanes() + i, 0); }
    check();
}

SavedLanes RaggedCache::save(int seq, std::span<const int> lengths) const {
    SavedLanes saved;
    const int n_kv = layout_.shape.n_kv_heads;
    for (int i = 0; i < layout_.shape.n_lanes(); ++i) {
        const int layer = i / n_kv;
        const int in_layer = seq * n_kv + i % n_kv;
        const auto n = static_cast<size_t>(lengths[static_cast<size_t>(i)]);
        const auto all = positions(lane(seq, layer, i % n_kv));
        assert(n <= all.size());
        saved.positions.emplace_back(all.begin(), all.begin() + static_cast<int64_t>(n));
        const auto rows = [&](ggml_tensor * tensor, size_t row_bytes) {
            const uint8_t * begin = lane_data(tensor, row_bytes, in_layer, stride_);
            return std::vector<uint8_t>(begin, begin + n * row_bytes);
        };
        saved.k.push_back(rows(k(layer), layout_.row_bytes_k()));
        saved.v.push_back(rows(v(layer), layout_.row_bytes_v()));
        saved.size_bytes += n * layout_.entry_bytes();
    }
    return saved;
}

Status RaggedCache::load(int seq, const SavedLanes & saved) {
    size_t longest = 0;
    for (const auto & lane_positions : saved.positions) { longest = std::max(longest, lane_positions.size()); }
    if (static_cast<int64_t>(longest) > stride_) { PITH_RETURN_IF_ERROR(grow(static_cast<int64_t>(longest))); }
    for (size_t i = 0; i < saved.positions.size(); ++i) {
        positions_[static_cast<size_t>(seq * layout_.shape.n_lanes()) + i].reserve(saved.positions[i].size());
    }
    clear(seq);  // what can fail is done
    const int n_kv = layout_.shape.n_kv_heads;
    for (int i = 0; i < layout_.shape.n_lanes(); ++i) {
        const auto s = static_cast<size_t>(i);
        const int layer = i / n_kv;
        const int in_layer = seq * n_kv + i % n_kv;
        const int id = lane(seq, layer, i % n_kv);
        make_own(id, 0);
        std::ranges::copy(saved.k[s], lane_data(k(layer), layout_.row_bytes_k(), in_layer, stride_));
        std::ranges::copy(saved.v[s], lane_data(v(layer), layout_.row_bytes_v(), in_layer, stride_));
        positions_[static_cast<size_t>(id)] = saved.positions[s];
        n_entries_ += static_cast<int64_t>(saved.positions[s].size());
        set_length(layer, in_layer, id, length(id), false);
    }
    check();
    return {};
}

Status RaggedCache::check_invariants() const {
    int64_t n = 0;
    size_t bytes = 0;
    size_t shared = 0;
    for (int i = 0; i < n_lanes(); ++i) {
        const auto lane_positions = positions(i);
        n += length(i);
        bytes += pages_k_[static_cast<size_t>(i)] + pages_v_[static_cast<size_t>(i)];
        shared += shared_k_[static_cast<size_t>(i)] + shared_v_[static_cast<size_t>(i)];
        const bool ascending = std::ranges::adjacent_find(lane_positions, std::greater_equal<>()) == lane_positions.end();
        if (!ascending || length(i) > stride_) {
            return {ErrorCode::kInternal,
                    "KV cache lane " + std::to_string(i) + ": positions do not ascend, or too many entries"};
        }
    }
    if (n != n_entries_ || bytes != allocated_bytes_ + shared || shared != shared_bytes_ || bytes < needed_bytes()) {
        return {ErrorCode::kInternal, "KV cache accounting: counted " + std::to_string(n) + " entries in " +
                                          std::to_string(bytes) + " bytes, booked " + std::to_string(n_entries_) + " in " +
                                          std::to_string(allocated_bytes_) + " and " + std::to_string(shared_bytes_) +
                                          " shared"};
    }
    return {};
}

void RaggedCache::check() const {
#ifndef NDEBUG
    assert(check_invariants().ok());
#endif
}

}  // namespace pith
