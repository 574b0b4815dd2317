// bucket_lanes.h - lanes in the memory of a device, in buckets of lanes with the same room. Stage: cache.
//
// One buffer for a layer. A lane's room is what it holds, rounded up to kStep cells; lanes of the same room lie side by side,
// so that one operation attends to all of them. Where lanes outgrow their room, and where they are compacted, the device copies
// what stays to a buffer of the right size, and the old one is given back: the peak is one layer more. What the processor reads
// and writes goes through copies of its own.
// A fork is a copy: no memory is shared.
// Errors: a device that fails in a call that returns nothing is told by health().
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "cache/lane_store.h"
#include "device/lane_device.h"

namespace pith {

class BucketLanes : public LaneStore {
public:
    static constexpr int64_t kStep = 256;  // cells: what devices' attention kernels like

    static int64_t room_for(int64_t length) { return (length + kStep - 1) / kStep * kStep; }
    // Errors: kUnsupported: rows of K or V that are no whole number of four bytes.
    static Status check(const LaneRows & rows);

    // Empty, and without memory. REQUIRES: check(rows).
    static Result<std::unique_ptr<LaneStore>> make(const LaneRows & rows, std::shared_ptr<LaneDevice> device);

    bool has_own_room() const noexcept override { return true; }
    std::span<const LaneBucket> buckets() const noexcept override { return cells_.buckets; }
    Result<bool> make_room(std::span<const int64_t> lengths) override;
    void hold_room() noexcept override;
    void let_go_of_room() noexcept override;
    bool compact(const Ragged<int32_t> & keep) noexcept override;
    Status health() const override { return health_; }

    void make_own(int /*lane*/, int64_t /*first*/) noexcept override {}
    void set_length(int lane, int64_t length, bool frees) noexcept override;
    void move(int lane, int64_t from, int64_t to, int64_t n) noexcept override;
    void write(int lane, int64_t first, int64_t n, const uint8_t * k, const uint8_t * v) noexcept override;
    void copy_from(const LaneStore & other, std::span<const int64_t> lengths) noexcept override;
    void read(int lane, int64_t first, int64_t n, uint8_t * k, uint8_t * v) const noexcept override;
    Result<std::unique_ptr<LaneStore>> fork() const override;

private:
    // Tensors, their memory, and which lane's cells are where.
    struct Cells {
        Cells() = default;
        Cells(Cells && other) noexcept { swap(other); }
        Cells & operator=(Cells && other) noexcept {
            swap(other);
            return *this;
        }
        ~Cells();
        void swap(Cells & other) noexcept;

        ggml_context * context = nullptr;
        ggml_backend_buffer_t buffer = nullptr;
        ggml_tensor * k = nullptr;  // null: no lane has room
        ggml_tensor * v = nullptr;
        std::vector<int64_t> rooms;        // [lane]
        std::vector<int64_t> first_cells;  // [lane]
        std::vector<LaneBucket> buckets;
    };
    using RowOf = std::function<int64_t(int lane, int64_t i)>;

    BucketLanes(const LaneRows & rows, std::shared_ptr<LaneDevice> device);
    static void arrange(Cells & cells);
    Status fill(Cells & cells, std::span<const int64_t> lengths, const RowOf & row_of) const;
    Result<Cells> cells_of(std::vector<int64_t> rooms, std::span<const int64_t> lengths, const RowOf & row_of) const;
    void take(Cells cells) noexcept;
    void on_device(const std::function<void()> & work) const noexcept;

    std::shared_ptr<LaneDevice> device_;
    Cells cells_;
    std::vector<int64_t> lengths_;  // [lane]
    std::vector<int64_t> held_;     // [lane] no lane gets less room than for so many
    std::vector<uint8_t> scratch_;  // rows of K, then of V, on their way from one place in a lane to another
    mutable Status health_;
};

}  // namespace pith
