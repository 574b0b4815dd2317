// ragged_cache.h - the KV cache: one lane per (sequence, layer, KV head), each with its own length. Stage: cache.
//
// Storage: per layer one reserved region for K and one for V, ggml tensors [head_dim, cells]. A lane owns `capacity()` cells
// of address space; only the pages that hold entries cost memory. Entry i of a lane is its i-th row; positions ascend.
// Compaction moves entries down in place and returns whole pages to the system: it is the only call that drops entries from
// the middle of a lane. K and V are written by the attention graph (ggml_set_rows at cell()); append() makes room first.
//
// A frozen cache is a base that others fork: they read its entries where they lie, and copy a page when they first write to it
// (behind the last entry, or where an eviction moves entries). Its bytes are counted once, as its own.
//
// Threads: one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "cache/page_memory.h"
#include "cache/spill_memory.h"
#include "core/ragged.h"
#include "core/shape.h"
#include "ggml.h"
#include "pith/status.h"

struct ggml_backend_buffer;

namespace pith {

struct CacheLayout {
    CacheShape shape;
    int n_seqs = 1;
    int head_dim_v = 0;
    ggml_type type_k = GGML_TYPE_F16;
    ggml_type type_v = GGML_TYPE_F16;

    size_t row_bytes_k() const { return ggml_row_size(type_k, shape.head_dim); }
    size_t row_bytes_v() const { return ggml_row_size(type_v, head_dim_v); }
    size_t entry_bytes() const { return row_bytes_k() + row_bytes_v(); }
};

// The first entries of every lane of a sequence, to come back to after evictions.
struct SavedLanes {
    std::vector<std::vector<int32_t>> positions;  // [lane of the sequence]
    std::vector<std::vector<uint8_t>> k;          // rows of K, same order
    std::vector<std::vector<uint8_t>> v;
    size_t size_bytes = 0;
};

// What a compaction takes out of one layer's lanes.
struct RemovedEntries {
    int layer = 0;
    std::vector<std::vector<int32_t>> positions;  // [K] ascending
    SpillMemory rows;                             // lane by lane: rows of K, same order, then of V

    bool empty() const;
};

class RaggedCache {
public:
    // Errors: kUnsupported when a type's block does not divide the head size (names both); kOutOfMemory.
    static Result<std::unique_ptr<RaggedCache>> make(const CacheLayout & layout, int64_t capacity);
    static Status check_types(const CacheLayout & layout);
    ~RaggedCache();
    RaggedCache(const RaggedCache &) = delete;
    RaggedCache & operator=(const RaggedCache &) = delete;

    const CacheLayout & layout() const { return layout_; }
    int64_t capacity() const { return stride_; }  // cells per lane
    int lane(int seq, int layer, int kv_head) const {
        return seq * layout_.shape.n_lanes() + layout_.shape.lane(layer, kv_head);
    }
    int n_lanes() const { return static_cast<int>(positions_.size()); }
    int length(int lane) const { return static_cast<int>(positions_[static_cast<size_t>(lane)].size()); }
    std::span<const int32_t> positions(int lane) const { return positions_[static_cast<size_t>(lane)]; }

    // Flat tensors of a layer: K [head_dim, cells], V [head_dim_v, cells].
    ggml_tensor * k(int layer) const { return layers_[static_cast<size_t>(layer)].k; }
    ggml_tensor * v(int layer) const { return layers_[static_cast<size_t>(layer)].v; }
    // Of these tensors: no other cache of the process has it, and it changes when growing replaces them. A graph built around
    // them is good as long as this stays.
    uint64_t storage_id() const { return storage_id_; }
    // Row of a layer's flat tensors that holds entry `index` of the lane (seq, kv_head).
    int64_t cell(int seq, int kv_head, int64_t index) const {
        return (static_cast<int64_t>(seq) * layout_.shape.n_kv_heads + kv_head) * stride_ + index;
    }

    // Makes room for n more entries in the lanes of one sequence, growing the reservation where it must.
    Status reserve(int seq, int layer, int64_t n);
    // Adds entries with these positions behind each lane of (seq, layer). REQUIRES: reserve() of as many; positions ascend.
    void append(int seq, int layer, std::span<const int32_t> positions);
    // Keeps the entries of the plan ([K] ascending indices) and frees the rest. Returns how many went.
    int64_t compact(int seq, int layer, const Ragged<int32_t> & keep);
    // Cuts every lane of (seq, layer) back to its first lengths[kv_head] entries.
    void truncate(int seq, int layer, std::span<const int> lengths);
    void clear(int seq);
    // Cuts a lane back to its entries at positions below `end`.
    void truncate_to_positions(int lane, int32_t end);

    // Those of the entries at positions below `end` that compact() with this plan drops, to be put back between what is there
    // then. Errors: those of SpillMemory. put_back() allocates nothing; REQUIRES: the lanes have held as many entries before.
    Result<RemovedEntries> copy_removed(int seq, int layer, const Ragged<int32_t> & keep, int32_t end, Spill where) const;
    void put_back(int seq, const RemovedEntries & entries) noexcept;

    // From now on nothing is written to this cache, and fork() gives others that begin with its entries, at no cost in K/V.
    // Copies the lanes once, layer by layer, to memory that can be shared. room: cells behind the longest lane for what forks
    // add before they must copy all. Errors: kOutOfMemory; the cache is then as before.
    Status freeze(int64_t room);
    bool frozen() const { return frozen_; }
    Result<std::unique_ptr<RaggedCache>> fork() const;  // REQUIRES: frozen()

    SavedLanes save(int seq, std::span<const int> lengths) const;  // lengths: [layer · K + kv_head]
    Status load(int seq, const SavedLanes & saved);

    int64_t n_entries() const { return n_entries_; }
    size_t needed_bytes() const { return static_cast<size_t>(n_entries_) * layout_.entry_bytes(); }
    size_t allocated_bytes() const { return allocated_bytes_; }  // own pages that hold entries or did since the last compaction
    size_t shared_bytes() const { return shared_bytes_; }        // pages of a base that are read and not yet copied
    size_t peak_bytes() const { return peak_bytes_; }
    int peak_lane_entries() const { return peak_lane_entries_; }

    // Positions ascend, lengths within capacity, counters add up. Debug builds call it after every change.
    Status check_invariants() const;

private:
    struct LayerStore {
        PageMemory memory;
        ggml_context * context = nullptr;
        ggml_backend_buffer * buffer = nullptr;
        ggml_tensor * k = nullptr;
        ggml_tensor * v = nullptr;
        size_t v_offset = 0;  // bytes from the start of memory to V
        LayerStore() = default;
        LayerStore(LayerStore && other) noexcept;
        LayerStore & operator=(LayerStore && other) noexcept;
        ~LayerStore();
    };

    RaggedCache(const CacheLayout & layout, int64_t stride);
    enum class Use { kAlone, kToFork };
    Result<LayerStore> make_layer(int64_t stride, Use use) const;
    Result<LayerStore> fork_layer(const LayerStore & base) const;
    Status add_tensors(LayerStore & store, int64_t cells) const;
    Status grow(int64_t capacity) { return move_to(capacity, Use::kAlone); }
    Status move_to(int64_t capacity, Use use);
    // Rows of the lane from `first` on are about to be written: a fork's pages there become its own.
    void make_own(int lane, int64_t first);
    void cut(int lane, int64_t n);
    // Books that a lane now holds `length` entries; frees pages behind them when asked.
    void set_length(int layer, int lane_in_layer, int lane, int64_t length, bool free_pages);
    void check() const;
    static uint8_t * lane_data(ggml_tensor * tensor, size_t row_bytes, int lane_in_layer, int64_t stride);

    CacheLayout layout_;
    int64_t stride_ = 0;  // cells per lane
    uint64_t storage_id_ = 0;
    std::vector<LayerStore> layers_;
    std::vector<std::vector<int32_t>> positions_;  // [lane]
    std::vector<size_t> pages_k_;                  // [lane] bytes of touched pages
    std::vector<size_t> pages_v_;
    std::vector<size_t> shared_k_;  // [lane] bytes of these, from the first page on, that are still the base's
    std::vector<size_t> shared_v_;
    bool frozen_ = false;
    size_t shared_bytes_ = 0;
    int64_t n_entries_ = 0;
    size_t allocated_bytes_ = 0;
    size_t peak_bytes_ = 0;
    int peak_lane_entries_ = 0;
};

}  // namespace pith
