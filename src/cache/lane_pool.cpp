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

// A room: of one store's lane, or of several that share a start.
struct LanePool::Lane {
    size_t store;
    int lane;
    int64_t room;
    int64_t first_cell;
    const SharedStart * shared;  // null: it is one store's
};

// Lanes in the order of their rooms, then of their stores.
std::vector<LanePool::Lane> LanePool::arrange(std::span<LanePlaces> places, std::span<const SharedStart> shared) {
    std::vector<Lane> lanes;
    for (size_t i = 0; i < places.size(); ++i) {
        LanePlaces & of = places[i];
        for (auto * all : {&of.first_cells, &of.ends, &of.counted}) { all->assign(of.rooms.size(), 0); }
        of.buckets.clear();
        for (size_t lane = 0; lane < of.rooms.size(); ++lane) {
            const auto start = std::ranges::find_if(shared, [&](const SharedStart & one) {
                return one.lane == static_cast<int>(lane) && std::ranges::binary_search(one.stores, i);
            });
            if (start == shared.end()) {
                lanes.push_back({i, static_cast<int>(lane), of.rooms[lane], 0, nullptr});
            } else if (start->stores.front() == i) {
                lanes.push_back({i, static_cast<int>(lane), start->room, 0, &*start});
            }
        }
    }
    std::ranges::stable_sort(lanes, {}, &Lane::room);
    int64_t next = 0;
    for (Lane & one : lanes) {
        one.first_cell = next;
        const auto lane = static_cast<size_t>(one.lane);
        int64_t end = one.shared == nullptr ? 0 : one.shared->n;
        for (const size_t i : one.shared == nullptr ? std::vector<size_t>{one.store} : one.shared->stores) {
            LanePlaces & of = places[i];
            of.first_cells[lane] = next;
            of.counted[lane] = of.rooms[lane];
            of.ends[lane] = end;
            end += of.rooms[lane];
            if (one.room == 0) { continue; }
            const auto follows = [&](const LaneBucket & last) {
                return last.room == one.room && last.first_cell + last.room * std::ssize(last.lanes) == next;
            };
            if (of.buckets.empty() || !follows(of.buckets.back())) { of.buckets.push_back({one.room, next, {}}); }
            of.buckets.back().lanes.push_back(one.lane);
        }
        if (one.shared != nullptr) { places[one.shared->counts_it].counted[lane] += one.room - (end - one.shared->n); }
        next += one.room;
    }
    return lanes;
}

int64_t LanePlaces::n_cells() const {
    return std::accumulate(counted.begin(), counted.end(), int64_t{0});
}

Result<std::shared_ptr<LanePool>> LanePool::make(const LaneRows & rows, LaneDevice & device, std::span<LanePlaces> places,
                                                 std::span<const SharedStart> shared, std::span<const LanesToCome> to_come) {
    std::shared_ptr<LanePool> pool(new LanePool);
    const std::vector<Lane> lanes = arrange(places, shared);
    PITH_RETURN_IF_ERROR(pool->fill(rows, device, places, to_come, lanes));
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
                      std::span<const LanesToCome> to_come, std::span<const Lane> lanes) {
    const int64_t n_cells = lanes.empty() ? 0 : lanes.back().first_cell + lanes.back().room;
    if (n_cells == 0) { return {}; }
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
    const auto fill_lane = [&](size_t i, int lane, int64_t first) {
        const LanesToCome & from = to_come[i];
        if (from.k == nullptr) { return; }
        const auto l = static_cast<size_t>(lane);
        const LanePieces pieces{places[i].starts[l], places[i].ends[l], {}};
        for (int64_t row = first; row < from.lengths[l]; ++row) {
            const int64_t cell = places[i].first_cells[l] + pieces.cell(row);
            indices[static_cast<size_t>(cell)] = static_cast<int32_t>(from.row_of(lane, row));
        }
    };
    for (const Lane & lane : lanes) {
        if (lane.shared == nullptr) {
            fill_lane(lane.store, lane.lane, 0);
            continue;
        }
        for (const size_t i : lane.shared->stores) {
            fill_lane(i, lane.lane, i == lane.shared->longest ? 0 : places[i].starts[static_cast<size_t>(lane.lane)]);
        }
    }
    struct Run {  // of cells, whose rows come from one place
        const LanesToCome * from;
        size_t first;
        size_t n;
    };
    std::vector<Run> runs;  // ascending
    for (const Lane & lane : lanes) {
        const LanesToCome & from = to_come[lane.store];
        if (from.k == nullptr || lane.room == 0) { continue; }
        runs.push_back({&from, static_cast<size_t>(lane.first_cell), static_cast<size_t>(lane.room)});
    }
    // Stores that lay together before are copied together.
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
