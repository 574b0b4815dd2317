// lane_pool.h - one piece of a device's memory for the lanes of one layer, of one sequence or of several. Stage: cache.
//
// Two tensors, of K and of V. Lanes with the same room lie side by side, those of one store (bucket_lanes.h) next to each
// other: so one operation writes to the lanes of all stores, and one attends to all that have the same room. Lanes that begin
// with the same entries may share a room: the start lies there once, and behind it each lane's end. It is as large as
// its lanes' rooms, and never changes: whoever needs another room gets a new pool, to which the device copies what stays, and
// the old one goes with the last store that lies in it. REQUIRES, of whatever changes who lies there: inside on_devices().
// Threads: one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "cache/lane_store.h"
#include "device/lane_device.h"

namespace pith {

class BucketLanes;

// Where one store's lanes lie in a pool.
struct LanePlaces {
    std::vector<int64_t> rooms;        // [lane] cells of its own; of one with a start the end's
    std::vector<int64_t> first_cells;  // [lane]
    std::vector<int64_t> starts;       // [lane] entries in a start that others see, too
    std::vector<int64_t> ends;         // [lane] from the first cell to where its other entries lie
    std::vector<int64_t> counted;      // [lane] cells that count as this store's: a start is its first store's
    std::vector<LaneBucket> buckets;

    int64_t n_cells() const;
};

// Lanes of one room that begin with the same entries.
struct SharedStart {
    int lane = 0;                // of each of the stores
    int64_t n = 0;               // entries of the one that sees most of it
    int64_t room = 0;            // cells of the start and of all ends
    std::vector<size_t> stores;  // indices, ascending, at least two
    size_t longest = 0;          // the store that sees all n
    size_t counts_it = 0;        // the store whose bytes the start is
};

// What a store brings with it: row i of a lane, of the first lengths[lane], is row row_of(lane, i) of k and of v.
struct LanesToCome {
    const ggml_tensor * k = nullptr;  // null: nothing
    const ggml_tensor * v = nullptr;
    std::vector<int64_t> lengths;  // [lane]
    std::function<int64_t(int lane, int64_t i)> row_of;
};

class LanePool {
public:
    // places: of each store, with rooms and starts; the rest is found here. to_come: as many. shared: of different lanes; what
    // comes into a start is the same rows of the same tensors, whichever of its stores is asked.
    // Errors: kOutOfMemory, kIo: the device failed.
    static Result<std::shared_ptr<LanePool>> make(const LaneRows & rows, LaneDevice & device, std::span<LanePlaces> places,
                                                  std::span<const SharedStart> shared, std::span<const LanesToCome> to_come);
    ~LanePool();
    LanePool(const LanePool &) = delete;
    LanePool & operator=(const LanePool &) = delete;

    ggml_tensor * k() const { return k_; }  // null: no lane has room
    ggml_tensor * v() const { return v_; }
    size_t size_bytes() const;
    int64_t n_cells() const { return k_ == nullptr ? 0 : k_->ne[1]; }

    // Who lies here.
    std::vector<BucketLanes *> & stores() { return stores_; }
    const std::vector<BucketLanes *> & stores() const { return stores_; }

    // Who wants nothing to move here yet; null: nobody.
    LaneStore::HeldMoves * holding = nullptr;

private:
    LanePool() = default;
    struct Lane;
    static std::vector<Lane> arrange(std::span<LanePlaces> places, std::span<const SharedStart> shared);
    Status fill(const LaneRows & rows, LaneDevice & device, std::span<const LanePlaces> places,
                std::span<const LanesToCome> to_come, std::span<const Lane> lanes);

    ggml_context * context_ = nullptr;
    ggml_backend_buffer_t buffer_ = nullptr;
    ggml_tensor * k_ = nullptr;
    ggml_tensor * v_ = nullptr;
    std::vector<BucketLanes *> stores_;
};

}  // namespace pith
