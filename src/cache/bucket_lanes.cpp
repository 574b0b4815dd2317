// bucket_lanes.cpp - buffers of the right size, and what goes from one to the next.
#include "cache/bucket_lanes.h"

#include <ggml-backend.h>

#include <algorithm>
#include <array>
#include <limits>
#include <new>
#include <numeric>
#include <string>
#include <utility>

#include "core/items.h"
#include "device/device_work.h"
#include "device/sent_graphs.h"

namespace pith {
namespace {

constexpr int64_t kScratchRows = 64;

}  // namespace

Status BucketLanes::check(const LaneRows & rows) {
    for (const size_t bytes : {rows.bytes_k(), rows.bytes_v()}) {
        if (bytes % sizeof(int32_t) == 0) { continue; }
        return {ErrorCode::kUnsupported, "rows of " + std::to_string(bytes) + " bytes (K " + ggml_type_name(rows.type_k) +
                                             ", V " + ggml_type_name(rows.type_v) + ") are no whole number of four bytes"};
    }
    return {};
}

BucketLanes::BucketLanes(const LaneRows & rows, std::shared_ptr<LaneDevice> device)
    : LaneStore(rows, std::numeric_limits<int32_t>::max()),
      device_(std::move(device)),
      lengths_(static_cast<size_t>(rows.n_lanes), 0),
      held_(static_cast<size_t>(rows.n_lanes), 0),
      scratch_(static_cast<size_t>(kScratchRows) * rows.bytes()) {
    cells_.rooms.assign(lengths_.size(), 0);
    cells_.first_cells.assign(lengths_.size(), 0);
    first_cells_ = cells_.first_cells;
}

Result<std::unique_ptr<LaneStore>> BucketLanes::make(const LaneRows & rows, std::shared_ptr<LaneDevice> device) {
    return std::unique_ptr<LaneStore>(new BucketLanes(rows, std::move(device)));
}

BucketLanes::Cells::~Cells() {
    if (buffer != nullptr) {
        // Of a device that has failed nothing can be given back. In one turn: no graph may be sent between the two.
        static_cast<void>(on_devices([&]() -> Status {
            forget_sent_graphs();
            ggml_backend_buffer_free(buffer);
            return {};
        }));
    }
    if (context != nullptr) { ggml_free(context); }
}

void BucketLanes::Cells::swap(Cells & other) noexcept {
    std::swap(context, other.context);
    std::swap(buffer, other.buffer);
    std::swap(k, other.k);
    std::swap(v, other.v);
    rooms.swap(other.rooms);
    first_cells.swap(other.first_cells);
    buckets.swap(other.buckets);
}

// Lanes in the order of their rooms, each room a bucket.
void BucketLanes::arrange(Cells & cells) {
    std::vector<int> order(cells.rooms.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, {}, [&](int lane) { return cells.rooms[static_cast<size_t>(lane)]; });
    cells.first_cells.assign(cells.rooms.size(), 0);
    int64_t next = 0;
    for (const int lane : order) {
        const int64_t room = cells.rooms[static_cast<size_t>(lane)];
        cells.first_cells[static_cast<size_t>(lane)] = next;
        if (room == 0) { continue; }
        if (cells.buckets.empty() || cells.buckets.back().room != room) { cells.buckets.push_back({room, next, {}}); }
        cells.buckets.back().lanes.push_back(lane);
        next += room;
    }
}

// Memory for the cells, and in it the rows: row i of a lane is cell row_of(lane, i) of what there is.
Status BucketLanes::fill(Cells & cells, std::span<const int64_t> lengths, const RowOf & row_of) const {
    const int64_t n_cells = std::accumulate(cells.rooms.begin(), cells.rooms.end(), int64_t{0});
    if (n_cells == 0) { return {}; }
    const Status no_memory(ErrorCode::kOutOfMemory,
                           "no memory on " + device_->name() + " for the keys and values of a layer, " +
                               std::to_string(static_cast<uint64_t>(n_cells) * rows().bytes()) + " bytes: use a smaller " +
                               item::kBudget + " or " + item::kChunk + ", or keep them here (" + item::kKvOffload + ")");
    if (n_cells > std::numeric_limits<int32_t>::max()) { return no_memory; }  // cells are counted in 32 bits there
    cells.context = ggml_init({2 * ggml_tensor_overhead(), nullptr, true});
    if (cells.context == nullptr) { return no_memory; }
    cells.k = ggml_new_tensor_2d(cells.context, rows().type_k, rows().head_dim_k, n_cells);
    cells.v = ggml_new_tensor_2d(cells.context, rows().type_v, rows().head_dim_v, n_cells);
    forget_sent_graphs();
    cells.buffer = device_->allocate(cells.context);
    if (cells.buffer == nullptr) { return no_memory; }
    if (cells_.k == nullptr) {
        // What lies behind the entries is hidden from every query, and yet multiplied by 0: it must be a number.
        ggml_backend_buffer_clear(cells.buffer, 0);
        return {};
    }
    std::vector<int32_t> indices(static_cast<size_t>(n_cells), 0);  // behind the entries: any row
    for (size_t lane = 0; lane < lengths.size(); ++lane) {
        const auto first = static_cast<size_t>(cells.first_cells[lane]);
        for (int64_t i = 0; i < lengths[lane]; ++i) {
            indices[first + static_cast<size_t>(i)] = static_cast<int32_t>(row_of(static_cast<int>(lane), i));
        }
    }
    const std::array<LaneDevice::Copy, 2> copies = {{{cells_.k, cells.k}, {cells_.v, cells.v}}};
    return device_->copy_rows(copies, indices);
}

Result<BucketLanes::Cells> BucketLanes::cells_of(std::vector<int64_t> rooms, std::span<const int64_t> lengths,
                                                 const RowOf & row_of) const {
    Cells cells;
    cells.rooms = std::move(rooms);
    arrange(cells);
    PITH_RETURN_IF_ERROR(on_devices([&] { return fill(cells, lengths, row_of); }));
    return cells;
}

void BucketLanes::take(Cells cells) noexcept {
    cells_.swap(cells);  // and what there was is given back
    first_cells_.swap(cells_.first_cells);
    k_ = cells_.k;
    v_ = cells_.v;
    allocated_bytes_ = cells_.buffer == nullptr ? 0 : ggml_backend_buffer_get_size(cells_.buffer);
}

Result<bool> BucketLanes::make_room(std::span<const int64_t> lengths) {
    PITH_RETURN_IF_ERROR(health_);
    bool grows = false;
    std::vector<int64_t> rooms;
    for (size_t lane = 0; lane < lengths.size(); ++lane) {
        grows = grows || lengths[lane] > cells_.rooms[lane];
        rooms.push_back(room_for(std::max(lengths[lane], held_[lane])));
    }
    if (!grows) { return false; }
    PITH_ASSIGN_OR_RETURN(Cells cells,
                          cells_of(std::move(rooms), lengths_, [this](int lane, int64_t i) { return cell(lane, i); }));
    take(std::move(cells));
    return true;
}

void BucketLanes::hold_room() noexcept {
    for (size_t lane = 0; lane < held_.size(); ++lane) { held_[lane] = std::max(held_[lane], lengths_[lane]); }
}

void BucketLanes::let_go_of_room() noexcept {
    std::ranges::fill(held_, 0);
}

bool BucketLanes::compact(const Ragged<int32_t> & keep) noexcept {
    try {
        std::vector<int64_t> rooms;
        std::vector<int64_t> lengths;
        for (int lane = 0; lane < rows().n_lanes; ++lane) {
            lengths.push_back(keep.length(lane));
            rooms.push_back(room_for(std::max(lengths.back(), held_[static_cast<size_t>(lane)])));
        }
        if (lengths == lengths_ && rooms == cells_.rooms) { return true; }  // nothing goes
        auto cells = cells_of(std::move(rooms), lengths,
                              [&](int lane, int64_t i) { return cell(lane, keep.row(lane)[static_cast<size_t>(i)]); });
        if (!cells.ok()) { return false; }
        take(std::move(*cells));
        return true;
    } catch (const std::bad_alloc &) { return false; }
}

Result<std::unique_ptr<LaneStore>> BucketLanes::fork() const {
    PITH_RETURN_IF_ERROR(health_);
    std::unique_ptr<BucketLanes> store(new BucketLanes(rows(), device_));
    std::vector<int64_t> rooms;
    for (const int64_t length : lengths_) { rooms.push_back(room_for(length)); }
    PITH_ASSIGN_OR_RETURN(Cells cells,
                          cells_of(std::move(rooms), lengths_, [this](int lane, int64_t i) { return cell(lane, i); }));
    store->take(std::move(cells));
    store->lengths_ = lengths_;
    return std::unique_ptr<LaneStore>(std::move(store));
}

void BucketLanes::set_length(int lane, int64_t length, bool /*frees*/) noexcept {
    lengths_[static_cast<size_t>(lane)] = length;
}

void BucketLanes::on_device(const std::function<void()> & work) const noexcept {
    try {
        const Status status = on_devices([&]() -> Status {
            work();
            return {};
        });
        if (!status.ok() && health_.ok()) {
            health_ = {status.code(), status.wording() + " (" + device_->name() +
                                          "): keys and values are lost; read the prompt anew, or open a cache file"};
        }
    } catch (...) {
        if (health_.ok()) { health_ = Status(ErrorCode::kOutOfMemory, "out of memory"); }
    }
}

void BucketLanes::write(int lane, int64_t first, int64_t n, const uint8_t * k, const uint8_t * v) noexcept {
    if (n == 0) { return; }
    const auto at = static_cast<size_t>(cell(lane, first));
    const auto count = static_cast<size_t>(n);
    on_device([&] {
        ggml_backend_tensor_set(k_, k, at * rows().bytes_k(), count * rows().bytes_k());
        if (v != nullptr) { ggml_backend_tensor_set(v_, v, at * rows().bytes_v(), count * rows().bytes_v()); }
    });
}

void BucketLanes::read(int lane, int64_t first, int64_t n, uint8_t * k, uint8_t * v) const noexcept {
    if (n == 0) { return; }
    const auto at = static_cast<size_t>(cell(lane, first));
    const auto count = static_cast<size_t>(n);
    on_device([&] {
        ggml_backend_tensor_get(k_, k, at * rows().bytes_k(), count * rows().bytes_k());
        if (v != nullptr) { ggml_backend_tensor_get(v_, v, at * rows().bytes_v(), count * rows().bytes_v()); }
    });
}

// From the end that is not overwritten before it has been read.
void BucketLanes::move(int lane, int64_t from, int64_t to, int64_t n) noexcept {
    uint8_t * k = scratch_.data();
    uint8_t * v = k + static_cast<size_t>(kScratchRows) * rows().bytes_k();
    for (int64_t done = 0; done < n;) {
        const int64_t some = std::min(kScratchRows, n - done);
        const int64_t i = to < from ? done : n - done - some;
        read(lane, from + i, some, k, v);
        write(lane, to + i, some, k, v);
        done += some;
    }
}

// REQUIRES: room for as many.
void BucketLanes::copy_from(const LaneStore & other, std::span<const int64_t> lengths) noexcept {
    uint8_t * k = scratch_.data();
    uint8_t * v = k + static_cast<size_t>(kScratchRows) * rows().bytes_k();
    for (int lane = 0; lane < rows().n_lanes; ++lane) {
        const int64_t n = lengths[static_cast<size_t>(lane)];
        for (int64_t first = 0; first < n; first += kScratchRows) {
            const int64_t some = std::min(kScratchRows, n - first);
            other.read(lane, first, some, k, v);
            write(lane, first, some, k, v);
        }
        set_length(lane, n, /*frees=*/false);
    }
}

}  // namespace pith
