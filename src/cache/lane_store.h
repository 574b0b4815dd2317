// lane_store.h - where the keys and values of one layer's lanes lie, whatever memory that is. Stage: cache.
//
// A store has room for capacity() rows of K and of V in each lane; rows [0, length) of a lane are its entries. Graphs read and
// write them through two flat tensors; what a cache does with rows goes through the calls below, so that memory a processor
// cannot point into may stand behind them. A store is one of two kinds: every lane has room for capacity() rows, or each has
// room of its own, which make_room() changes.
//
// Threads: one at a time; two stores may be used side by side.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/ragged.h"
#include "ggml.h"
#include "pith/status.h"

namespace pith {

// What a row is, and how many lanes there are.
struct LaneRows {
    int n_lanes = 0;  // of the layer, those of all sequences
    int head_dim_k = 0;
    int head_dim_v = 0;
    ggml_type type_k = GGML_TYPE_F16;
    ggml_type type_v = GGML_TYPE_F16;

    size_t bytes_k() const { return ggml_row_size(type_k, head_dim_k); }
    size_t bytes_v() const { return ggml_row_size(type_v, head_dim_v); }
    size_t bytes() const { return bytes_k() + bytes_v(); }
};

// Lanes with as many cells, which lie one behind the other: a graph looks at all of them at once.
struct LaneBucket {
    int64_t room = 0;        // cells of each; those behind its entries hold numbers, whichever
    int64_t first_cell = 0;  // of the first
    std::vector<int> lanes;  // of the layer, ascending
};

// Where in its room a lane's entries lie: all in one piece from the first cell on; or the first `n` in a start that lanes of
// other stores see, too, and the others, its own, from cell `end` on.
struct LanePieces {
    int64_t n = 0;
    int64_t end = 0;
    std::span<const int32_t> rows;  // the cells of the first n; empty: 0, 1, …

    int64_t cell(int64_t i) const {
        if (i >= n) { return end + i - n; }
        return rows.empty() ? i : rows[static_cast<size_t>(i)];
    }
    bool is_one() const { return n == end && rows.empty(); }
    bool operator==(const LanePieces & other) const {
        return n == other.n && end == other.end && rows.empty() && other.rows.empty();
    }
};

class LaneStore {
public:
    enum class Use { kAlone, kToFork };  // kToFork: fork() will be asked for

    virtual ~LaneStore() = default;
    LaneStore(const LaneStore &) = delete;
    LaneStore & operator=(const LaneStore &) = delete;

    const LaneRows & rows() const { return rows_; }
    int64_t capacity() const { return capacity_; }
    // K [head_dim_k, cells], V [head_dim_v, cells]: row i of a lane is this cell. Null: there are no cells yet.
    int64_t cell(int lane, int64_t i) const {
        return first_cells_[static_cast<size_t>(lane)] + (in_pieces_ ? pieces(lane).cell(i) : i);
    }
    virtual LanePieces pieces(int /*lane*/) const noexcept { return {}; }
    ggml_tensor * k() const { return k_; }
    ggml_tensor * v() const { return v_; }

    // Books that rows of the lane from `first` on, as long as it is now, are written, by a graph or by one of the calls below:
    // a fork no longer shares the memory they lie in. Before or after it happens.
    virtual void make_own(int lane, int64_t first) noexcept = 0;
    // The lane holds so many entries now. frees: memory behind them is no longer needed.
    virtual void set_length(int lane, int64_t length, bool frees) noexcept = 0;

    // Whether lanes have room of their own; capacity() bounds nothing then.
    virtual bool has_own_room() const noexcept { return false; }
    // Of lanes with room of their own, those that have any.
    virtual std::span<const LaneBucket> buckets() const noexcept { return {}; }
    // Room for so many rows in each lane; what it holds stays. Whether k(), v() and cells are others now.
    // Errors: kOutOfMemory, kIo (a device failed); the store is then as before.   REQUIRES: no less than the lanes hold.
    virtual Result<bool> make_room(std::span<const int64_t> /*lengths*/) { return false; }
    // The same for several stores of this kind, of the same rows and device, and this one among them: they come to lie side by
    // side, where this kind of store can, in the same k() and v(), so that one operation reaches the lanes of all.
    struct RoomFor {
        LaneStore * store;
        std::vector<int64_t> lengths;
    };
    virtual Result<bool> make_room_together(std::span<const RoomFor> /*stores*/) { return false; }
    // Whether it would change nothing.
    virtual bool has_room_together(std::span<const RoomFor> /*stores*/) const noexcept { return true; }
    // No other store is to lie side by side with this one any more. Where there is no memory for that, it stays.
    virtual void move_out() noexcept {}
    // How often k(), v() and cells have become others, which other stores may do, too.
    virtual uint64_t n_moves() const noexcept { return 0; }
    // As long as one of these lives, lanes that lie beside this store's may be compacted, and stores that lie there go, without
    // anything being moved: all of it is, once, when the last goes, or when somebody asks for rows before (settle()). What is
    // compacted then has room for a few entries more. Null: this kind of store does not wait.
    class HeldMoves {
    public:
        HeldMoves() = default;
        virtual ~HeldMoves() = default;
        HeldMoves(const HeldMoves &) = delete;
        HeldMoves & operator=(const HeldMoves &) = delete;
    };
    virtual std::unique_ptr<HeldMoves> hold_moves() { return nullptr; }
    // Whether a compaction waits: k(), v() and cells are not yet those of the lanes.
    bool waits_to_move() const noexcept { return waits_to_move_; }
    virtual void settle() noexcept {}
    // Of own memory, what there will be then.
    virtual size_t bytes_to_come() const noexcept { return allocated_bytes_; }
    // From now on no lane gets less room than for what it holds now, or for so many entries, [lane], until it is let go of:
    // entries that compact() drops, or others, may come back. lengths: empty, or those of a make_room().
    virtual void hold_room(std::span<const int64_t> /*lengths*/) noexcept {}
    virtual void let_go_of_room() noexcept {}
    // Keeps these rows of each lane, [lanes of the layer], ascending, and gives back the memory of the others; set_length()
    // follows. false: it does not do that by itself, or had no memory for it: the rows are to be moved one after the other.
    virtual bool compact(const Ragged<int32_t> & /*keep*/) noexcept { return false; }
    // No row that goes in a compaction that keeps these (null: no row at all) lies in memory that another store sees, too: it
    // can be written to. Errors: kOutOfMemory, kIo; nothing has changed then.
    virtual Status make_whole(const Ragged<int32_t> * /*keep*/) { return {}; }
    // What has gone wrong in a call that returns nothing, if anything has: rows are lost then.
    virtual Status health() const { return {}; }

    // n rows go from one place in a lane to another; the two may overlap.
    virtual void move(int lane, int64_t from, int64_t to, int64_t n) noexcept = 0;
    // v null, here and in read(): only the rows of K.
    virtual void write(int lane, int64_t first, int64_t n, const uint8_t * k, const uint8_t * v) noexcept = 0;
    // The rows of another store of this kind, lane by lane its first lengths[lane].
    virtual void copy_from(const LaneStore & other, std::span<const int64_t> lengths) noexcept = 0;
    // The same; the other's memory goes back as its rows are read, and it holds nothing afterwards. Returns the most that both
    // had allocated together.
    virtual size_t take_from(LaneStore & other, std::span<const int64_t> lengths) noexcept {
        copy_from(other, lengths);
        return allocated_bytes() + other.allocated_bytes();
    }
    virtual void read(int lane, int64_t first, int64_t n, uint8_t * k, uint8_t * v) const noexcept = 0;

    // One that begins with this one's entries, at no cost until it writes. REQUIRES: nothing is written to this one any more;
    // of the first kind, Use::kToFork. Errors: kOutOfMemory.
    virtual Result<std::unique_ptr<LaneStore>> fork() const = 0;
    // The same with memory of its own. REQUIRES: the second kind.
    virtual Result<std::unique_ptr<LaneStore>> copy() const { return fork(); }
    // Of a fork: entries of a lane, from the first on, whose rows are still its base's.
    virtual int64_t n_shared(int /*lane*/) const noexcept { return 0; }

    size_t allocated_bytes() const {
        return allocated_bytes_;
    }                                                      // own memory that holds entries, or did since the last set_length()
    size_t shared_bytes() const { return shared_bytes_; }  // of a store that was forked, read and not yet copied

protected:
    LaneStore(const LaneRows & rows, int64_t capacity) : rows_(rows), capacity_(capacity) {
        for (int lane = 0; lane < rows.n_lanes; ++lane) { first_cells_.push_back(lane * capacity); }
    }

    ggml_tensor * k_ = nullptr;
    ggml_tensor * v_ = nullptr;
    size_t allocated_bytes_ = 0;
    size_t shared_bytes_ = 0;
    bool waits_to_move_ = false;
    bool in_pieces_ = false;            // some of its lanes do not lie in one piece
    std::vector<int64_t> first_cells_;  // [lane]

private:
    LaneRows rows_;
    int64_t capacity_;
};

}  // namespace pith
