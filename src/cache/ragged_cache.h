// ragged_cache.h - the KV cache: one lane per (sequence, layer, KV head), each with its own length. Stage: cache.
//
// A layer's rows lie in a store (lane_store.h): pages of the host, or buckets in a device's memory. Entry i of a lane is its
// i-th row; positions ascend. Compaction moves entries
// down in place and frees what is behind them: it is the only call that drops entries from the middle of a lane. K and V are
// written by the attention graph (ggml_set_rows at cell()); append() makes room first. Every sequence of an engine has a cache
// of its own, so lanes come and go, and grow, without moving another sequence's.
//
// Keys lie in the cache after RoPE. Where one stands is its entry's position, less shift(); but the first so many of a lane may
// stand elsewhere, since turning has moved them (turned_keys.h): positions are the books, and stay.
//
// A frozen cache is a base that others fork: they read its entries where they lie, and copy a page when they first write to it
// (behind the last entry, or where an eviction moves entries). Its bytes are counted once, as its own. In buckets a lane's
// start is shared, until an eviction takes entries out of it (bucket_lanes.h).
//
// Threads: one at a time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cache/lane_store.h"
#include "cache/layer_lanes.h"
#include "cache/page_memory.h"
#include "cache/resting_lanes.h"
#include "cache/turned_keys.h"
#include "core/ragged.h"
#include "core/shape.h"
#include "core/tasks.h"
#include "device/lane_device.h"
#include "ggml.h"
#include "pith/status.h"

namespace pith {

// Policies govern the layers that see everything. Others see a window: their entries leave when nobody sees them any more,
// every kWindowStep positions, and no budget counts them. Layers without attention have no lanes.
struct CacheLayout {
    static constexpr int kWindowStep = 128;

    CacheShape shape;  // of the governed layers, which are alike; n_layers: how many they are
    int n_seqs = 1;    // more than one only where all layers are governed
    int head_dim_v = 0;
    ggml_type type_k = GGML_TYPE_F16;
    ggml_type type_v = GGML_TYPE_F16;
    bool rotates_quantised = false;  // rows of quantised types are rotated before they are rounded: attention/lane_rotation.h
    float attention_scale = 0.0F;    // of the products of queries with these keys
    float attention_softcap = 0.0F;  // what is left of a score s: softcap · tanh(s / softcap); 0: s itself
    std::vector<LayerLanes> layers;  // [layer of the model]; empty: all are governed
    size_t state_bytes = 0;          // of a sequence's recurrent layers, in which there are no lanes
    // [layer of the model][H]: the score of a key that every query of the head sees, and whose value is 0. Null: there is none.
    std::shared_ptr<const std::vector<std::vector<float>>> sinks;
    // [layer of the model][K·d]: what is taken off rotated keys first, the same for all of a lane: to a query's softmax it is
    // nothing. Null: nothing is.
    std::shared_ptr<const std::vector<std::vector<float>>> key_offsets;
    // [layer of the model]: whose memory its lanes lie in, null: the host's; empty: all lie there. Only of one sequence.
    std::vector<std::shared_ptr<LaneDevice>> devices;

    bool rotates_k() const { return rotates_quantised && ggml_is_quantized(type_k); }
    bool rotates_v() const { return rotates_quantised && ggml_is_quantized(type_v); }
    int n_layers() const { return layers.empty() ? shape.n_layers : static_cast<int>(layers.size()); }
    LayerLanes lanes(int layer) const {
        if (!layers.empty()) { return layers[static_cast<size_t>(layer)]; }
        return {shape.n_kv_heads, shape.n_group, shape.head_dim, head_dim_v, 0};
    }
    int window(int layer) const { return layers.empty() ? 0 : layers[static_cast<size_t>(layer)].window; }
    bool governs(int layer) const { return window(layer) == 0 && has_lanes(layer); }
    bool has_lanes(int layer) const { return layers.empty() || layers[static_cast<size_t>(layer)].n_kv_heads > 0; }
    bool governs_all() const { return layers.empty(); }
    // The layer whose lanes a layer's queries see.
    int source(int layer) const {
        const int other = layers.empty() ? -1 : layers[static_cast<size_t>(layer)].source;
        return other < 0 ? layer : other;
    }
    std::shared_ptr<LaneDevice> device(int layer) const {
        return devices.empty() ? nullptr : devices[static_cast<size_t>(layer)];
    }
    // Whether each layer's lanes lie in the same memory as the other's.
    bool lies_as(const CacheLayout & other) const {
        for (int layer = 0; layer < n_layers(); ++layer) {
            if (device(layer) != other.device(layer)) { return false; }
        }
        return true;
    }
    bool any_on_device() const {
        return std::ranges::any_of(devices, [](const auto & one) { return one != nullptr; });
    }
    std::span<const float> sinks_of(int layer) const {
        return sinks == nullptr ? std::span<const float>() : std::span<const float>((*sinks)[static_cast<size_t>(layer)]);
    }
    // Of a lane [d], or of all of a layer, one behind the other; empty: none.
    std::span<const float> key_offset(int layer) const {
        return key_offsets == nullptr || !rotates_k() ? std::span<const float>()
                                                      : std::span<const float>((*key_offsets)[static_cast<size_t>(layer)]);
    }
    std::span<const float> key_offset(int layer, int kv_head) const {
        const auto all = key_offset(layer);
        const size_t d = all.size() / static_cast<size_t>(std::max(1, lanes(layer).n_kv_heads));
        return all.empty() ? all : all.subspan(static_cast<size_t>(kv_head) * d, d);
    }
    // The same shape over all layers of the model: of what is kept by layer, governed or not.
    CacheShape shape_of_model() const { return {n_layers(), shape.n_kv_heads, shape.n_group, shape.head_dim}; }

    // Of the governed layers, or of one layer.
    LaneRows rows() const { return {shape.n_kv_heads * n_seqs, shape.head_dim, head_dim_v, type_k, type_v}; }
    LaneRows rows(int layer) const {
        const LayerLanes of = lanes(layer);
        return {of.n_kv_heads * n_seqs, of.head_dim, of.head_dim_v, type_k, type_v};
    }
    size_t entry_bytes() const { return rows().bytes(); }
    // First position that a query at next_position or later may see in the layer, rounded down to a multiple of kWindowStep.
    int32_t window_begin(int layer, int64_t next_position) const {
        if (window(layer) == 0) { return 0; }
        const int64_t first = lanes(layer).first_seen(next_position);
        return first <= 0 ? 0 : static_cast<int32_t>(first / kWindowStep * kWindowStep);
    }
};

// Which layers a call is about.
enum class Layers : uint8_t { kAll, kGoverned, kWindows };

// What one layer keeps: [K] ascending indices.
struct LayerKeep {
    int layer = 0;
    const Ragged<int32_t> * keep = nullptr;
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
    int64_t capacity() const { return capacity_; }  // cells per lane, of layers in pages
    // Of the model's layers, one behind the other, each with its own number of heads.
    int lane(int seq, int layer, int kv_head) const {
        return seq * n_lanes_of_seq() + first_lanes_[static_cast<size_t>(layer)] + kv_head;
    }
    int n_kv_heads(int layer) const {
        const auto l = static_cast<size_t>(layer);
        return first_lanes_[l + 1] - first_lanes_[l];
    }
    bool has_lane(int layer, int kv_head) const {
        return layer >= 0 && layer < layout_.n_layers() && kv_head >= 0 && kv_head < n_kv_heads(layer);
    }
    int longest() const;  // entries of the longest lane
    int n_lanes() const { return static_cast<int>(positions_.size()); }
    int length(int lane) const { return static_cast<int>(positions_[static_cast<size_t>(lane)].size()); }
    std::span<const int32_t> positions(int lane) const { return positions_[static_cast<size_t>(lane)]; }

    // A token at position p is to stand at p - shift(): 0 until keys are turned.
    int32_t shift() const { return shift_; }
    // Where the lane's keys stand, [length]: ascending, all before position - shift() of the next token.
    std::vector<int32_t> standing(int lane) const;
    // Of these, what turning has set: the first so many.
    std::span<const int32_t> turned(int lane) const { return turned_[static_cast<size_t>(lane)]; }
    // The first entries of all lanes stand where `keys` says, with its rows of K, from now on; and `keys` holds what was there:
    // a second call takes the first back, also of lanes that were cut since. One sequence's. Cannot fail; devices: health().
    void swap_keys(TurnedKeys & keys) noexcept;

    // Flat tensors of a layer: K [head_dim, cells], V [head_dim_v, cells].
    ggml_tensor * k(int layer) const { return store(layer).k(); }
    ggml_tensor * v(int layer) const { return store(layer).v(); }
    // Of these tensors: no other cache of the process has it, and it changes when growing replaces them. A graph built around
    // them is good as long as this stays.
    uint64_t storage_id() const { return storage_id_; }
    // How often lanes that lie beside another cache's were moved with them: the tensors are others then, too.
    uint64_t n_moves() const;
    // Row of a layer's flat tensors that holds entry `index` of the lane (seq, layer, kv_head).
    int64_t cell(int seq, int layer, int kv_head, int64_t index) const {
        return store(layer).cell(in_layer(seq, kv_head), index);
    }
    // Where the entries of a lane in a bucket lie, from its cell 0 on.
    LanePieces pieces(int seq, int layer, int kv_head) const { return store(layer).pieces(in_layer(seq, kv_head)); }
    // Whether a layer's lanes lie in buckets, in a device's memory; and these: lanes are KV heads then.
    bool in_buckets(int layer) const { return unsettled(layer).has_own_room(); }
    bool any_in_buckets() const;
    std::span<const LaneBucket> buckets(int layer) const { return store(layer).buckets(); }

    // Makes room for n more entries in the lanes of one sequence, growing the reservation where it must.
    // Errors: kOutOfMemory, kIo (a device failed).
    Status reserve(int seq, int layer, int64_t n);
    // The same in all layers of caches of one sequence each, of one model. Lanes in a device's memory come to lie side by side
    // there (LaneStore::make_room_together()); where any must move, all get room for BucketLanes::kAhead entries more. Whether
    // they lie so: where there is no memory for that, each has room where it is.
    static Result<bool> reserve_together(std::span<RaggedCache * const> caches, int64_t n);
    // As long as what it returns lives, evictions of these caches, and those of them that go, leave a device's memory as it is:
    // then all of a layer move at once (LaneStore::hold_moves()).
    static std::vector<std::unique_ptr<LaneStore::HeldMoves>> hold_moves(std::span<RaggedCache * const> caches) noexcept;
    // Adds entries with these positions behind each lane of (seq, layer). REQUIRES: reserve() of as many; positions ascend.
    void append(int seq, int layer, std::span<const int32_t> positions);
    // The newest n entries leave every lane of (seq, layer). Their rows stay where they are, behind the lanes' ends, until
    // others come there or lanes are cut, or move: append() of as many brings them back.
    void hide_last(int seq, int layer, int n) noexcept;
    // Keeps these entries and frees the rest, layers side by side. Returns how many went. Cannot fail: what run_tasks leaves
    // undone is done on the calling thread.   REQUIRES: no layer twice.
    int64_t compact(int seq, std::span<const LayerKeep> keeps, const RunTasks & run_tasks) noexcept;
    int64_t compact(int seq, int layer, const Ragged<int32_t> & keep) noexcept {
        const LayerKeep one{layer, &keep};
        return compact(seq, std::span(&one, 1), run_in_turn);
    }
    // Takes the first n entries out of every lane of (seq, layer), and frees their memory. REQUIRES: they have as many.
    void drop_first(int seq, int layer, int n) noexcept;
    // Cuts every lane of (seq, layer) back to its first lengths[kv_head] entries, [K].
    void truncate(int seq, int layer, std::span<const int> lengths);
    void clear(int seq, Layers which = Layers::kAll);
    // Cuts every lane of (seq, layer) back to its entries at positions below `end`.
    void truncate_to_positions(int seq, int layer, int32_t end);

    // Two ways out, which leave the lanes as they are: the first entries of each lane, lengths [lane of the sequence]; and
    // those at positions below `end` that compact() with these plans would drop. folder: of SpillMemory, as the errors are;
    // also kIo (a device failed).
    Result<RestingLanes> save(int seq, std::span<const int> lengths, Layers which = Layers::kAll, Spill where = Spill::kMemory,
                              const std::string & folder = {}) const;
    Result<RestingLanes> save_dropped(int seq, std::span<const LayerKeep> keeps, int32_t end, Spill where) const;
    // Two ways back: in place of what the layers' lanes hold, all of it or, on an error, none (kIo: a device failed, and what
    // it held is lost); and between what they hold, which allocates nothing. REQUIRES: no layer is in two of them; for
    // put_back(), that the lanes have held as many entries before, or room for so many is held.
    Status load(int seq, std::span<const RestingLanes * const> saved);
    Status load(int seq, const RestingLanes & saved) {
        const RestingLanes * one = &saved;
        return load(seq, std::span(&one, 1));
    }
    void put_back(int seq, const RestingLanes & entries) noexcept;
    // Behind what the layers' lanes hold, all of them or, on an error, none. Errors: those of load(). REQUIRES: no lane is
    // longer than capacity() then; their positions are above all that is there, and none has turned, here or there.
    Status load_behind(int seq, const RestingLanes & entries);
    // From now on, until it is let go of, there stays room for as many entries as the lanes hold now: compact() may be followed
    // by put_back().
    void hold_room() noexcept;
    // And for so many in each lane of (seq, layer), [K]. Errors: kOutOfMemory, also thrown; what was held before goes on being
    // held.
    Status hold_room(int seq, int layer, std::span<const int64_t> lengths);
    // The same, until the lanes next change: put_back() may follow. Errors: as above, and kIo (a device failed).
    Status make_room(int seq, int layer, std::span<const int64_t> lengths);
    void let_go_of_room() noexcept;
    // No entry that a compaction with these plans drops, or none at all, lies where another cache's does, too, on a device:
    // what is dropped may come back, and keys turn. Errors: kOutOfMemory, kIo; the lanes are as before.
    Status make_whole(std::span<const LayerKeep> keeps);
    Status make_whole();

    // From now on nothing is written to this cache, and fork() gives others that begin with its entries, at no cost in K/V.
    // Moves the lanes once, piece by piece, to memory that can be shared, one file for all of them (page_memory.h). room: cells
    // behind the longest lane for what forks add before they must copy all. Errors: kOutOfMemory; the cache is then as before.
    Status freeze(int64_t room);
    bool frozen() const { return frozen_; }
    // Another cache of the first `most` entries of each lane; to_fork: frozen, in memory that can be shared. Errors:
    // kOutOfMemory.
    Result<std::unique_ptr<RaggedCache>> copy(int64_t most, int64_t room, bool to_fork) const;
    // It may be written to again. REQUIRES: no fork of it is left.
    void thaw() { frozen_ = false; }
    Result<std::unique_ptr<RaggedCache>> fork() const;  // REQUIRES: frozen()
    // It becomes a base that others go on from, and `own` its first fork. Errors: kOutOfMemory; it is not frozen then.
    static Result<std::unique_ptr<RaggedCache>> share(std::unique_ptr<RaggedCache> & own, int64_t room);
    // Of a fork: so many entries of a lane, from the first on, are read where the base's lie. Lanes with the same number begin
    // with the same rows; 0: none is shared.
    struct SharedRows {
        uint64_t base_lane = 0;
        int n = 0;
    };
    SharedRows shared_rows(int seq, int layer, int kv_head) const;
    // All of a lane's, for who reads it several times at once.
    SharedRows own_rows(int seq, int layer, int kv_head) const;

    // n entries of a lane from `first` on: rows of K and of V.
    void read(int seq, int layer, int kv_head, int64_t first, int64_t n, uint8_t * k, uint8_t * v) const;

    // Of governed layers, what policies count; of layers with a window apart.
    int64_t n_entries(Layers which = Layers::kGoverned) const;
    size_t needed_bytes(Layers which = Layers::kAll) const;
    size_t allocated_bytes(
        Layers which = Layers::kAll) const;  // own memory that holds entries, or did since the last compaction
    size_t allocated_bytes(int layer) const { return unsettled(layer).allocated_bytes(); }
    size_t shared_bytes() const;  // a base's that is read and not yet copied
    size_t peak_bytes() const { return peak_bytes_; }
    size_t bookkeeping_bytes() const;                             // positions and counters of lanes
    int peak_lane_entries() const { return peak_lane_entries_; }  // of governed layers

    // What has gone wrong with a device in a call that returns nothing: entries are lost then. reserve() says it, too.
    Status health() const;

    // Positions ascend, lengths within capacity, counters add up. Debug builds call it after every change.
    Status check_invariants() const;

private:
    // One layer: where its lanes lie, and what they come to.
    struct Layer {
        std::unique_ptr<LaneStore> store;
        int64_t n_entries = 0;
        size_t most_bytes = 0;  // that the store had allocated since the last count_peak()
        uint64_t n_moves = 0;   // of the store, as far as its most is booked
        bool to_compact = false;
    };

    explicit RaggedCache(const CacheLayout & layout);
    Status move_to(int64_t capacity, LaneStore::Use use);
    Result<RestingLanes> with_rows(int seq, RestingLanes entries, Spill where, const std::string & folder) const;
    template <class Visit>
    void each_lane(const RestingLanes & entries, const Visit & visit) const;
    Status make_room_for(int seq, const RestingLanes & entries, bool behind);
    void write_behind(int seq, const RestingLanes & entries) noexcept;
    void read_capacity() noexcept;
    static uint64_t next_storage_id() noexcept;
    void book_move(int layer, size_t bytes_before) noexcept;
    static std::vector<LaneStore::RoomFor> room_for(std::span<RaggedCache * const> caches, int layer, int64_t n);
    static Result<bool> make_room_together(std::span<RaggedCache * const> caches, int layer, int64_t n);
    Status make_own_room(int layer, std::span<const int64_t> lengths);
    Status make_whole(int layer, const Ragged<int32_t> * keep);
    Result<std::unique_ptr<LaneStore>> make_store(int layer, int64_t capacity, LaneStore::Use use,
                                                  std::shared_ptr<PageFile> & file) const;
    Result<std::vector<std::unique_ptr<LaneStore>>> make_stores(int64_t capacity, LaneStore::Use use) const;
    std::vector<int64_t> lengths_of(int layer) const;  // as its store has the lanes
    std::vector<int64_t> lengths_with(int seq, int layer, std::span<const int64_t> lengths) const;
    int n_lanes_of_seq() const { return first_lanes_.back(); }
    bool is_of(int layer, Layers which) const {
        return which == Layers::kAll || layout_.governs(layer) == (which == Layers::kGoverned);
    }
    // What a compaction that waits is to do is done first.
    LaneStore & store(int layer) const {
        LaneStore & of = unsettled(layer);
        if (of.waits_to_move()) { of.settle(); }
        return of;
    }
    LaneStore & unsettled(int layer) const { return *layers_[static_cast<size_t>(layer)].store; }
    // A sequence's lane among all of a layer.
    int in_layer(int seq, int kv_head) const { return seq * layout_.shape.n_kv_heads + kv_head; }
    std::vector<int32_t> & positions_of(int lane) { return positions_[static_cast<size_t>(lane)]; }
    std::vector<int32_t> & turned_of(int lane) { return turned_[static_cast<size_t>(lane)]; }
    // Rows of the lane from `first` on are about to be written.
    void make_own(int seq, int layer, int kv_head, int64_t first) noexcept;
    // The lane's entries are those of its positions now; frees memory behind them when asked. before: how many they were.
    void settle(int seq, int layer, int kv_head, int64_t before, bool frees) noexcept;
    void cut(int seq, int layer, int kv_head, int64_t n) noexcept;
    void compact_layer(int seq, const LayerKeep & one) noexcept;
    void count_peak() noexcept;
    void check() const;

    CacheLayout layout_;
    std::vector<int> first_lanes_;  // [layer], and how many a sequence has
    int64_t capacity_ = 0;
    uint64_t storage_id_ = 0;
    uint64_t base_id_ = 0;  // the storage that this one was forked from; 0: none
    std::vector<Layer> layers_;
    std::vector<std::vector<int32_t>> positions_;  // [lane]
    std::vector<std::vector<int32_t>> turned_;     // [lane]: where its first entries stand
    int32_t shift_ = 0;
    bool frozen_ = false;
    size_t peak_bytes_ = 0;
    int peak_lane_entries_ = 0;
};

}  // namespace pith
