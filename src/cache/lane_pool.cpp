// lane_pool.cpp - memory of the right size, and what goes from one piece to the next.
#include "cache/lane_pool.h"

#include <ggml-backend.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <string>

#include "core/items.h"
#include "device/device_work.h"
#include "device/sent_graphs.h"

namespace pith {
namespace {

// Lanes in the order of their rooms, then of their stores. Returns how many cells they take.
int64_t arrange(std::span<LanePlaces> places) {
    struct Lane {
        LanePlaces * of;
        int lane;
        int64_t room() const { return of->rooms[static_cast<size_t>(lane)]; }
    };
    std::vector<Lane> lanes;
    for (LanePlaces & of : places) {
        of.first_cells.assign(of.rooms.size(), 0);
        of.buckets.clear();
        for (size_t lane = 0; lane < of.rooms.size(); ++lane) { lanes.push_back({&of, static_cast<int>(lane)}); }
    }
    std::ranges::stable_sort(lanes, {}, &Lane::room);
    int64_t next = 0;
    for (const Lane & one : lanes) {
        const int64_t room = one.room();
        one.of->first_cells[static_cast<size_t>(one.lane)] = next;
        if (room == 0) { continue; }
        std::vector<LaneBucket> & buckets = one.of->buckets;
        if (buckets.empty() || buckets.back().room != room) { buckets.push_back({room, next, {}}); }
        buckets.back().lanes.push_back(one.lane);
        next += room;
    }
    return next;
}

}  // namespace

int64_t LanePlaces::n_cells() const {
    return std::accumulate(rooms.begin(), rooms.end(), int64_t{0});
}

Result<std::shared_ptr<LanePool>> LanePool::make(const LaneRows & rows, LaneDevice & device, std::span<LanePlaces> places,
                                                 std::span<const LanesToCome> to_come) {
    std::shared_ptr<LanePool> pool(new LanePool);
    const int64_t n_cells = arrange(places);
    if (n_cells > 0) { PITH_RETURN_IF_ERROR(pool->fill(rows, device, places, to_come, n_cells)); }
    return pool;
}

LanePool::~LanePool() {
    if (buffer_ != nullptr) {
        // Of a device that has failed nothing can be given back. In one turn: no graph may be sent between the two.
        static_cast<void>(on_devices([&]() -> Status {
            forget_sent_graphs();
            ggml_backend_buffer_free(buffer_);
            return {};
        }));
    }
    if (context_ != nullptr) { ggml_free(context_); }
}

size_t LanePool::size_bytes() const {
    return buffer_ == nullptr ? 0 : ggml_backend_buffer_get_size(buffer_);
}

Status LanePool::fill(const LaneRows & rows, LaneDevice & device, std::span<const LanePlaces> places,
                      std::span<const LanesToCome> to_come, int64_t n_cells) {
    const Status no_memory(ErrorCode::kOutOfMemory, "no memory on " + device.name() + " for the keys and values of a layer, " +
                                                        std::to_string(static_cast<uint64_t>(n_cells) * rows.bytes()) +
                                                        " bytes: use a smaller " + item::kBudget + " or " + item::kChunk +
                                                        ", or keep them here (" + item::kKvOffload + ")");
    if (n_cells > std::numeric_limits<int32_t>::max()) { return no_memory; }  // cells are counted in 32 bits there
    context_ = ggml_init({2 * ggml_tensor_overhead(), nullptr, true});
    if (context_ == nullptr) { return no_memory; }
    k_ = ggml_new_tensor_2d(context_, rows.type_k, rows.head_dim_k, n_cells);
    v_ = ggml_new_tensor_2d(context_, rows.type_v, rows.head_dim_v, n_cells);
    forget_sent_graphs();
    buffer_ = device.allocate(context_);
    if (buffer_ == nullptr) { return no_memory; }

    // The lanes that nothing comes to are cleared: what lies behind the entries is hidden from every query, and yet multiplied
    // by 0: it must be a number.
    if (std::ranges::any_of(to_come, [](const LanesToCome & one) { return one.k == nullptr; })) {
        ggml_backend_buffer_clear(buffer_, 0);
    }
    std::vector<int32_t> indices(static_cast<size_t>(n_cells), 0);  // behind the entries: any row
    struct Run {                                                    // of cells, whose rows come from one place
        const LanesToCome * from;
        size_t first;
        size_t n;
    };
    std::vector<Run> runs;
    for (size_t i = 0; i < places.size(); ++i) {
        const LanesToCome & from = to_come[i];
        if (from.k == nullptr) { continue; }
        for (size_t lane = 0; lane < from.lengths.size(); ++lane) {
            const auto first = static_cast<size_t>(places[i].first_cells[lane]);
            for (int64_t row = 0; row < from.lengths[lane]; ++row) {
                indices[first + static_cast<size_t>(row)] = static_cast<int32_t>(from.row_of(static_cast<int>(lane), row));
            }
        }
        for (const LaneBucket & bucket : places[i].buckets) {
            runs.push_back(
                {&from, static_cast<size_t>(bucket.first_cell), static_cast<size_t>(bucket.room) * bucket.lanes.size()});
        }
    }
    // Stores that lay together before are copied together.
    std::ranges::sort(runs, {}, &Run::first);
    std::vector<LaneDevice::Copy> copies;
    for (size_t i = 0; i < runs.size();) {
        const Run & first = runs[i];
        size_t n = first.n;
        for (++i; i < runs.size() && runs[i].from->k == first.from->k && runs[i].first == first.first + n; ++i) {
            n += runs[i].n;
        }
        copies.push_back({first.from->k, k_, first.first, n});
        copies.push_back({first.from->v, v_, first.first, n});
    }
    return device.copy_rows(copies, indices);
}

}  // namespace pith
