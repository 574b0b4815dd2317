// bucket_lanes.h - lanes in the memory of a device, in buckets of lanes with the same room. Stage: cache.
//
// A lane's room is what it holds, rounded up to kStep cells; lanes of the same room lie side by side, so that one operation
// attends to all of them. They lie in a pool (lane_pool.h), a store's own, or one that stores have come together in
// (make_room_together()). Where lanes outgrow their room, and where they are compacted, the device copies what stays to a pool
// of the right size, and the old one is given back: the peak is one layer more, of all that lie there. Where there is no memory
// for that, a store leaves the others, and what it leaves empty counts as the first one's until it is given back. Where moves
// are held back (hold_moves()), compactions and gaps wait, and are one move in the end. What the processor reads and writes
// goes through copies of its own. Errors: a device that fails in a call that returns nothing is told by health().
//
// A fork lies in its base's pool, and at first in its very cells. With the next move the start that they have in common lies
// once, and behind it, in the same room, what each adds (kEndStep): queries of all attend to that room, under masks. Nobody
// writes to a start. A lane that drops entries of it, is to be written there, or whose masks would take more than its copy
// does, gets a room of its own with the move that comes next; where there is no memory for that, what it drops is hidden by
// its mask. A start that one store alone is left with becomes an ordinary lane when the others go.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "cache/lane_pool.h"
#include "cache/lane_store.h"
#include "device/lane_device.h"

namespace pith {

class BucketLanes : public LaneStore {
public:
    static constexpr int64_t kStep = 256;  // cells: what devices' attention kernels like
    // Entries that lanes of several sequences get room for when one of them needs some: all move, and then for a while none.
    static constexpr int64_t kAhead = 32;
    static constexpr int64_t kEndStep = 64;  // cells: behind a start, what a lane's own end is rounded up to

    static int64_t room_for(int64_t length) { return (length + kStep - 1) / kStep * kStep; }
    // Errors: kUnsupported: rows of K or V that are no whole number of four bytes.
    static Status check(const LaneRows & rows);

    ~BucketLanes() override;
    // Empty, and without memory. REQUIRES: check(rows).
    static Result<std::unique_ptr<LaneStore>> make(const LaneRows & rows, std::shared_ptr<LaneDevice> device);

    bool has_own_room() const noexcept override { return true; }
    std::span<const LaneBucket> buckets() const noexcept override { return places_.buckets; }
    Result<bool> make_room(std::span<const int64_t> lengths) override;
    Result<bool> make_room_together(std::span<const RoomFor> stores) override;
    bool has_room_together(std::span<const RoomFor> stores) const noexcept override;
    void move_out() noexcept override;
    uint64_t n_moves() const noexcept override { return n_moves_; }
    std::unique_ptr<HeldMoves> hold_moves() override;
    void settle() noexcept override;
    size_t bytes_to_come() const noexcept override;
    void hold_room(std::span<const int64_t> lengths) noexcept override;
    void let_go_of_room() noexcept override;
    bool compact(const Ragged<int32_t> & keep) noexcept override;
    Status make_whole(const Ragged<int32_t> * keep) override;
    LanePieces pieces(int lane) const noexcept override;
    Status health() const override { return health_; }

    void make_own(int /*lane*/, int64_t /*first*/) noexcept override {}
    void set_length(int lane, int64_t length, bool frees) noexcept override;
    void move(int lane, int64_t from, int64_t to, int64_t n) noexcept override;
    void write(int lane, int64_t first, int64_t n, const uint8_t * k, const uint8_t * v) noexcept override;
    void copy_from(const LaneStore & other, std::span<const int64_t> lengths) noexcept override;
    void read(int lane, int64_t first, int64_t n, uint8_t * k, uint8_t * v) const noexcept override;
    Result<std::unique_ptr<LaneStore>> fork() const override;
    Result<std::unique_ptr<LaneStore>> copy() const override;

private:
    // What a store is to have of a new pool: room for so many entries in each lane, and so many of its first rows.
    struct Share {
        BucketLanes * store;
        std::vector<int64_t> rooms;
        std::vector<int64_t> lengths;
        const Ragged<int32_t> * kept = nullptr;  // or of these rows the first so many
        bool whole = false;                      // it shares no start

        int64_t cell(int lane, int64_t i) const {
            return store->cell(lane, kept == nullptr ? i : kept->row(lane)[static_cast<size_t>(i)]);
        }
    };

    static constexpr int64_t kScratchRows = 64;

    BucketLanes(const LaneRows & rows, std::shared_ptr<LaneDevice> device);
    std::vector<int64_t> at_least(std::span<const int64_t> lengths) const;
    std::vector<int64_t> rooms_there() const;
    bool begins_others(int lane) const noexcept;
    bool is_shared(int lane) const { return places_.starts[static_cast<size_t>(lane)] > 0; }
    bool has_room(std::span<const int64_t> lengths) const noexcept;
    Share as_it_is();
    class Holding;
    Share with_room_ahead(int64_t n);
    void settle_alone() noexcept;
    void compact_in_place(const Ragged<int32_t> & keep) noexcept;
    // Calls pass(tensor, host memory, offset, bytes) for rows [first, first + n) of a lane, piece by piece; v null: of K alone.
    template <class Byte, class Pass>
    void pass_rows(int lane, int64_t first, int64_t n, Byte * k, Byte * v, Pass pass) const noexcept;
    void see_pieces() noexcept;
    // Entries of a lane's start that it goes on to see where it shares it; 0: it cannot.
    static int64_t of_start(const Share & share, int lane);
    struct Seen;
    static size_t whose_bytes(std::span<const Share> shares, std::span<const Seen> alike, int lane);
    // Sets their rooms, and of lanes that share one their starts.
    static std::vector<SharedStart> share_starts(std::span<const Share> shares, std::span<LanePlaces> places);
    void say_that_it_stays() const noexcept;
    // Of all that lie in these pools: `changed` as it says, the others as they are.
    static std::vector<Share> shares_of(std::span<const std::shared_ptr<LanePool>> pools, std::vector<Share> changed);
    static bool is_settled(const LanePool & pool) noexcept;
    // All of them come to lie in one pool, and nobody else. Errors: kOutOfMemory, kIo; nothing has changed then.
    static Status lay_out(std::vector<Share> shares);
    // With all that lie in the same pool, or alone where there is no memory for that.
    Status change(const Share & share);
    // What has waited moves, and what those who left the pool held goes back, where there is memory to do so. ahead: of entries
    // that whoever moves gets room for.
    static void settle(const std::shared_ptr<LanePool> & pool, int64_t ahead) noexcept;
    static void move_all(const std::shared_ptr<LanePool> & pool, int64_t ahead) noexcept;
    static void count_bytes(const LanePool & pool) noexcept;
    void take(std::shared_ptr<LanePool> & pool, LanePlaces & places) noexcept;
    void leave() noexcept;
    void on_device(const std::function<void()> & work) const noexcept;

    std::shared_ptr<LaneDevice> device_;
    std::shared_ptr<LanePool> pool_;  // null: no lane has room, nor had
    LanePlaces places_;
    std::vector<std::vector<int32_t>> seen_;  // [lane] LanePieces::rows
    mutable bool is_base_ = false;            // others were forked from it: its lanes do not grow
    uint64_t n_moves_ = 0;
    std::vector<int64_t> lengths_;  // [lane]
    std::vector<int64_t> held_;     // [lane] no lane gets less room than for so many
    Ragged<int32_t> kept_;          // while a compaction waits: which rows of each lane are its entries
    std::vector<uint8_t> scratch_;  // rows of K, then of V, on their way from one place in a lane to another
    mutable Status health_;
};

}  // namespace pith
