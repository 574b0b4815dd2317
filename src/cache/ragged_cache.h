// ragged_cache.h - the KV cache: one lane per (sequence, layer, KV head), each with its own length. Stage: cache.
//
// A layer's rows lie in a store (lane_store.h). Entry i of a lane is its i-th row; positions ascend. Compaction moves entries
// down in place and frees what is behind them: it is the only call that drops entries from the middle of a lane. K and V are
// written by the attention graph (ggml_set_rows at cell()); append() makes room first. Every sequence of an engine has a cache
// of its own, so lanes come and go, and grow, without moving another sequence's.
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

#include "cache/lane_store.h"
#include "cache/spill_memory.h"
#include "core/ragged.h"
#include "core/shape.h"
#include "core/tasks.h"
#include "ggml.h"
#include "pith/status.h"

namespace pith {

struct CacheLayout {
    CacheShape shape;
    int n_seqs = 1;
    int head_dim_v = 0;
    ggml_type type_k = GGML_TYPE_F16;
    ggml_type type_v = GGML_TYPE_F16;
    float attention_scale = 0.0F;  // of the products of queries with these keys

    LaneRows rows() const { return {shape.n_kv_heads * n_seqs, shape.head_dim, head_dim_v, type_k, type_v}; }
    size_t entry_bytes() const { return rows().bytes(); }
};

// What one layer keeps: [K] ascending indices.
struct LayerKeep {
    int layer = 0;
    const Ragged<int32_t> * keep = nullptr;
};

// The first entries of every lane of a sequence, to come back to after evictions.
struct SavedLanes {
    std::vector<std::vector<int32_t>> positions;  // [lane of the sequence]
    std::vector<std::vector<uint8_t>> k;          // rows of K, same order
    std::vector<std::vector<uint8_t>> v;
    size_t size_bytes = 0;
};

// One lane's entries, wherever they lie.
struct StoredLane {
    std::span<const int32_t> positions;  // ascending
    const uint8_t * k = nullptr;         // as many rows
    const uint8_t * v = nullptr;
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
    int64_t capacity() const { return capacity_; }  // cells per lane
    int lane(int seq, int layer, int kv_head) const {
        return seq * layout_.shape.n_lanes() + layout_.shape.lane(layer, kv_head);
    }
    int n_lanes() const { return static_cast<int>(positions_.size()); }
    int length(int lane) const { return static_cast<int>(positions_[static_cast<size_t>(lane)].size()); }
    std::span<const int32_t> positions(int lane) const { return positions_[static_cast<size_t>(lane)]; }

    // Flat tensors of a layer: K [head_dim, cells], V [head_dim_v, cells].
    ggml_tensor * k(int layer) const { return store(layer).k(); }
    ggml_tensor * v(int layer) const { return store(layer).v(); }
    // Of these tensors: no other cache of the process has it, and it changes when growing replaces them. A graph built around
    // them is good as long as this stays.
    uint64_t storage_id() const { return storage_id_; }
    // Row of a layer's flat tensors that holds entry `index` of the lane (seq, kv_head).
    int64_t cell(int seq, int kv_head, int64_t index) const { return in_layer(seq, kv_head) * capacity_ + index; }

    // Makes room for n more entries in the lanes of one sequence, growing the reservation where it must.
    Status reserve(int seq, int layer, int64_t n);
    // Adds entries with these positions behind each lane of (seq, layer). REQUIRES: reserve() of as many; positions ascend.
    void append(int seq, int layer, std::span<const int32_t> positions);
    // Keeps these entries and frees the rest, layers side by side. Returns how many went. Cannot fail: what run_tasks leaves
    // undone is done on the calling thread.   REQUIRES: no layer twice.
    int64_t compact(int seq, std::span<const LayerKeep> keeps, const RunTasks & run_tasks) noexcept;
    int64_t compact(int seq, int layer, const Ragged<int32_t> & keep) noexcept {
        const LayerKeep one{layer, &keep};
        return compact(seq, std::span(&one, 1), run_in_turn);
    }
    // Cuts every lane of (seq, layer) back to its first lengths[kv_head] entries.
    void truncate(int seq, int layer, std::span<const int> lengths);
    void clear(int seq);
    // Cuts every lane of (seq, layer) back to its entries at positions below `end`.
    void truncate_to_positions(int seq, int layer, int32_t end);

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
    Status load(int seq, std::span<const StoredLane> lanes);  // [lane of the sequence]
    // n entries of a lane from `first` on: rows of K and of V.
    void read(int seq, int layer, int kv_head, int64_t first, int64_t n, uint8_t * k, uint8_t * v) const;

    int64_t n_entries() const;
    size_t needed_bytes() const { return static_cast<size_t>(n_entries()) * layout_.entry_bytes(); }
    size_t allocated_bytes() const;  // own memory that holds entries, or did since the last compaction
    size_t shared_bytes() const;     // a base's that is read and not yet copied
    size_t peak_bytes() const { return peak_bytes_; }
    size_t bookkeeping_bytes() const;  // positions and counters of lanes
    int peak_lane_entries() const { return peak_lane_entries_; }

    // Positions ascend, lengths within capacity, counters add up. Debug builds call it after every change.
    Status check_invariants() const;

private:
    // One layer: where its lanes lie, and what they come to.
    struct Layer {
        std::unique_ptr<LaneStore> store;
        int64_t n_entries = 0;
        size_t most_bytes = 0;  // that the store had allocated since the last count_peak()
        bool to_compact = false;
    };

    explicit RaggedCache(const CacheLayout & layout);
    Status move_to(int64_t capacity, LaneStore::Use use);
    LaneStore & store(int layer) const { return *layers_[static_cast<size_t>(layer)].store; }
    // A sequence's lane among all of a layer.
    int in_layer(int seq, int kv_head) const { return seq * layout_.shape.n_kv_heads + kv_head; }
    std::vector<int32_t> & positions_of(int lane) { return positions_[static_cast<size_t>(lane)]; }
    // Rows of the lane from `first` on are about to be written.
    void make_own(int seq, int layer, int kv_head, int64_t first) noexcept;
    // The lane's entries are those of its positions now; frees memory behind them when asked. before: how many they were.
    void settle(int seq, int layer, int kv_head, int64_t before, bool frees) noexcept;
    void cut(int seq, int layer, int kv_head, int64_t n) noexcept;
    void compact_layer(int seq, const LayerKeep & one) noexcept;
    void count_peak() noexcept;
    void check() const;

    CacheLayout layout_;
    int64_t capacity_ = 0;
    uint64_t storage_id_ = 0;
    std::vector<Layer> layers_;
    std::vector<std::vector<int32_t>> positions_;  // [lane]
    bool frozen_ = false;
    size_t peak_bytes_ = 0;
    int peak_lane_entries_ = 0;
};

}  // namespace pith
