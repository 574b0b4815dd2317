// bucket_lanes.cpp - who lies in which pool, and with how much room.
#include "cache/bucket_lanes.h"

#include <ggml-backend.h>

#include <algorithm>
#include <limits>
#include <new>
#include <string>
#include <utility>

#include "device/device_work.h"

namespace pith {
namespace {

constexpr int64_t kScratchRows = 64;

}  // namespace

// Of the pool that it was made for, and of those that stores come together in meanwhile.
class BucketLanes::Holding : public LaneStore::HeldMoves {
public:
    ~Holding() override {
        for (const auto & one : pools_) {
            const std::shared_ptr<LanePool> pool = one.lock();
            if (!pool) { continue; }
            pool->holding = nullptr;
            BucketLanes::settle(pool, kAhead);
        }
    }
    void add(const std::shared_ptr<LanePool> & pool) {
        pools_.push_back(pool);
        pool->holding = this;
    }

private:
    std::vector<std::weak_ptr<LanePool>> pools_;
};

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
    places_.rooms.assign(lengths_.size(), 0);
    places_.first_cells.assign(lengths_.size(), 0);
    first_cells_ = places_.first_cells;
}

BucketLanes::~BucketLanes() {
    const std::shared_ptr<LanePool> pool = pool_;
    leave();
    if (pool) { settle(pool, /*ahead=*/0); }
}

Result<std::unique_ptr<LaneStore>> BucketLanes::make(const LaneRows & rows, std::shared_ptr<LaneDevice> device) {
    return std::unique_ptr<LaneStore>(new BucketLanes(rows, std::move(device)));
}

std::vector<int64_t> BucketLanes::rooms_for(std::span<const int64_t> lengths) const {
    std::vector<int64_t> rooms;
    for (size_t lane = 0; lane < lengths.size(); ++lane) { rooms.push_back(room_for(std::max(lengths[lane], held_[lane]))); }
    return rooms;
}

bool BucketLanes::has_room(std::span<const int64_t> lengths) const noexcept {
    return std::ranges::equal(lengths, places_.rooms, std::ranges::less_equal());
}

BucketLanes::Share BucketLanes::as_it_is() {
    if (!waits_to_move_) {
        return {this, places_.rooms, lengths_, [this](int lane, int64_t i) { return cell(lane, i); }};
    }
    return {this, rooms_for(lengths_), lengths_,
            [this](int lane, int64_t i) { return cell(lane, kept_.row(lane)[static_cast<size_t>(i)]); }};
}

// What has to move anyway, or would in so many tokens.
BucketLanes::Share BucketLanes::with_room_ahead(int64_t n) {
    Share share = as_it_is();
    std::vector<int64_t> lengths = lengths_;
    for (int64_t & length : lengths) { length += n; }
    if (waits_to_move_ || !has_room(lengths)) { share.rooms = rooms_for(lengths); }
    return share;
}

std::vector<BucketLanes::Share> BucketLanes::shares_of(std::span<const std::shared_ptr<LanePool>> pools,
                                                       std::vector<Share> changed) {
    for (const auto & pool : pools) {
        for (BucketLanes * store : pool->stores()) {
            if (std::ranges::find(changed, store, &Share::store) == changed.end()) { changed.push_back(store->as_it_is()); }
        }
    }
    return changed;
}

Status BucketLanes::lay_out(std::vector<Share> shares) {
    std::vector<LanePlaces> places(shares.size());
    std::vector<LanesToCome> to_come(shares.size());
    std::vector<std::shared_ptr<LanePool>> before;
    before.reserve(shares.size());
    for (size_t i = 0; i < shares.size(); ++i) {
        const BucketLanes & store = *shares[i].store;
        places[i].rooms = std::move(shares[i].rooms);
        to_come[i] = {store.k(), store.v(), std::move(shares[i].lengths), std::move(shares[i].row_of)};
        if (store.pool_ && std::ranges::find(before, store.pool_) == before.end()) { before.push_back(store.pool_); }
    }
    const BucketLanes & first = *shares.front().store;
    PITH_ASSIGN_OR_RETURN(auto pool, LanePool::make(first.rows(), *first.device_, places, to_come));
    pool->stores().reserve(shares.size());
    for (const auto & old : before) {
        if (old->holding != nullptr && pool->holding == nullptr) { static_cast<Holding *>(old->holding)->add(pool); }
    }
    for (size_t i = 0; i < shares.size(); ++i) { shares[i].store->take(pool, places[i]); }  // nothing fails any more
    count_bytes(*pool);
    for (const auto & old : before) { settle(old, /*ahead=*/0); }
    return {};
}

bool BucketLanes::is_settled(const LanePool & pool) noexcept {
    int64_t n_cells = 0;
    for (const BucketLanes * store : pool.stores()) {
        if (store->waits_to_move_) { return false; }
        n_cells += store->places_.n_cells();
    }
    return n_cells == pool.n_cells();
}

void BucketLanes::settle(const std::shared_ptr<LanePool> & pool, int64_t ahead) noexcept {
    if (pool->stores().empty() || is_settled(*pool)) { return; }
    pool->holding == nullptr ? move_all(pool, ahead) : count_bytes(*pool);
}

void BucketLanes::move_all(const std::shared_ptr<LanePool> & pool, int64_t ahead) noexcept {
    try {
        const Status status = on_devices([&]() -> Status {
            std::vector<Share> shares;
            for (BucketLanes * store : pool->stores()) { shares.push_back(store->with_room_ahead(ahead)); }
            return lay_out(std::move(shares));
        });
        if (status.ok()) { return; }
    } catch (const std::bad_alloc &) {}  // then one after the other
    for (;;) {
        const auto waiting = std::ranges::find_if(pool->stores(), [](const auto * one) { return one->waits_to_move_; });
        if (waiting == pool->stores().end()) { break; }
        (*waiting)->settle_alone();
    }
    count_bytes(*pool);
}

void BucketLanes::settle() noexcept {
    if (!waits_to_move_) { return; }
    const std::shared_ptr<LanePool> pool = pool_;
    move_all(pool, kAhead);
}

std::unique_ptr<LaneStore::HeldMoves> BucketLanes::hold_moves() {
    if (!pool_ || pool_->holding != nullptr) { return nullptr; }
    auto holding = std::make_unique<Holding>();
    holding->add(pool_);
    return holding;
}

size_t BucketLanes::bytes_to_come() const noexcept {
    if (!waits_to_move_) { return allocated_bytes_; }
    int64_t n_cells = 0;
    for (size_t lane = 0; lane < lengths_.size(); ++lane) {
        n_cells += room_for(std::max<int64_t>(kept_.length(static_cast<int>(lane)), held_[lane]) + kAhead);
    }
    return static_cast<size_t>(n_cells) * rows().bytes();
}

// All that a pool takes is somebody's.
void BucketLanes::count_bytes(const LanePool & pool) noexcept {
    size_t rest = pool.size_bytes();
    for (BucketLanes * store : pool.stores()) {
        store->allocated_bytes_ = static_cast<size_t>(store->places_.n_cells()) * store->rows().bytes();
        rest -= std::min(rest, store->allocated_bytes_);
    }
    if (!pool.stores().empty()) { pool.stores().front()->allocated_bytes_ += rest; }
}

void BucketLanes::leave() noexcept {
    if (pool_) { std::erase(pool_->stores(), this); }
}

// REQUIRES: a place for it is reserved in the pool's list.
void BucketLanes::take(std::shared_ptr<LanePool> & pool, LanePlaces & places) noexcept {
    leave();
    pool->stores().push_back(this);
    pool_ = pool;
    waits_to_move_ = false;
    kept_ = {};
    places_ = std::move(places);
    std::ranges::copy(places_.first_cells, first_cells_.begin());
    k_ = pool->k();
    v_ = pool->v();
    ++n_moves_;
}

Status BucketLanes::change(const Share & share) {
    return on_devices([&]() -> Status {
        if (!pool_ || pool_->stores().size() < 2) { return lay_out({share}); }
        const std::shared_ptr<LanePool> pool = pool_;
        const Status status = lay_out(shares_of(std::span(&pool, 1), {share}));
        return status.code() == ErrorCode::kOutOfMemory ? lay_out({share}) : status;
    });
}

Result<bool> BucketLanes::make_room(std::span<const int64_t> lengths) {
    PITH_RETURN_IF_ERROR(health_);
    if (has_room(lengths)) { return false; }
    Share share = as_it_is();
    share.rooms = rooms_for(lengths);
    PITH_RETURN_IF_ERROR(change(share));
    return true;
}

bool BucketLanes::has_room_together(std::span<const RoomFor> stores) const noexcept {
    return std::ranges::all_of(stores, [&](const RoomFor & one) {
        const auto & store = static_cast<const BucketLanes &>(*one.store);
        return store.pool_ && store.pool_ == pool_ && store.has_room(one.lengths);
    });
}

Result<bool> BucketLanes::make_room_together(std::span<const RoomFor> stores) {
    std::vector<Share> shares;
    std::vector<std::shared_ptr<LanePool>> pools;
    for (const RoomFor & one : stores) {
        auto & store = static_cast<BucketLanes &>(*one.store);
        PITH_RETURN_IF_ERROR(store.health_);
        shares.push_back(store.as_it_is());
        if (!store.has_room(one.lengths)) { shares.back().rooms = store.rooms_for(one.lengths); }
        if (store.pool_ && std::ranges::find(pools, store.pool_) == pools.end()) { pools.push_back(store.pool_); }
    }
    if (has_room_together(stores)) { return false; }
    PITH_RETURN_IF_ERROR(on_devices([&] { return lay_out(shares_of(pools, std::move(shares))); }));
    return true;
}

void BucketLanes::move_out() noexcept {
    if (!pool_ || pool_->stores().size() < 2) { return; }
    try {
        static_cast<void>(on_devices([&] { return lay_out({as_it_is()}); }));
    } catch (const std::bad_alloc &) {}  // then it stays
}

void BucketLanes::hold_room() noexcept {
    for (size_t lane = 0; lane < held_.size(); ++lane) { held_[lane] = std::max(held_[lane], lengths_[lane]); }
}

void BucketLanes::let_go_of_room() noexcept {
    std::ranges::fill(held_, 0);
}

bool BucketLanes::compact(const Ragged<int32_t> & keep) noexcept {
    settle();
    try {
        Share share = as_it_is();
        share.lengths.clear();
        for (int lane = 0; lane < rows().n_lanes; ++lane) { share.lengths.push_back(keep.length(lane)); }
        share.rooms = rooms_for(share.lengths);
        if (share.lengths == lengths_ && share.rooms == places_.rooms) { return true; }  // nothing goes
        if (pool_ && pool_->holding != nullptr) {
            kept_ = keep;
            waits_to_move_ = true;
            return true;
        }
        share.row_of = [&](int lane, int64_t i) { return cell(lane, keep.row(lane)[static_cast<size_t>(i)]); };
        return change(share).ok();
    } catch (const std::bad_alloc &) { return false; }
}

// By itself, or where there is no memory for that, where it is.
void BucketLanes::settle_alone() noexcept {
    try {
        if (on_devices([&] { return lay_out({as_it_is()}); }).ok()) { return; }
    } catch (const std::bad_alloc &) {}
    waits_to_move_ = false;
    for (int lane = 0; lane < rows().n_lanes; ++lane) {
        const std::span<const int32_t> kept = kept_.row(lane);
        for (size_t to = 0; to < kept.size();) {
            const int64_t from = kept[to];
            size_t n = 1;
            while (to + n < kept.size() && kept[to + n] == kept[to] + static_cast<int32_t>(n)) { ++n; }
            if (from != static_cast<int64_t>(to)) { move(lane, from, static_cast<int64_t>(to), static_cast<int64_t>(n)); }
            to += n;
        }
    }
    kept_ = {};
}

Result<std::unique_ptr<LaneStore>> BucketLanes::fork() const {
    PITH_RETURN_IF_ERROR(health_);
    std::unique_ptr<BucketLanes> store(new BucketLanes(rows(), device_));
    PITH_RETURN_IF_ERROR(on_devices([&]() -> Status {
        LanePlaces places;
        for (const int64_t length : lengths_) { places.rooms.push_back(room_for(length)); }
        const LanesToCome to_come = {k(), v(), lengths_, [this](int lane, int64_t i) { return cell(lane, i); }};
        PITH_ASSIGN_OR_RETURN(auto pool, LanePool::make(rows(), *device_, std::span(&places, 1), std::span(&to_come, 1)));
        pool->stores().reserve(1);
        store->take(pool, places);
        count_bytes(*pool);
        return {};
    }));
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
