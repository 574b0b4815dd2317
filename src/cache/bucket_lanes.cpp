// bucket_lanes.cpp - who lies in which pool, and with how much room.
#include "cache/bucket_lanes.h"

#include <ggml-backend.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <new>
#include <string>
#include <utility>

#include "core/guarded.h"
#include "core/text.h"
#include "device/device_work.h"
#include "pith/log.h"

namespace pith {

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
    for (auto * all : {&places_.rooms, &places_.first_cells, &places_.starts, &places_.ends, &places_.counted}) {
        all->assign(lengths_.size(), 0);
    }
    seen_.resize(lengths_.size());
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

std::vector<int64_t> BucketLanes::at_least(std::span<const int64_t> lengths) const {
    std::vector<int64_t> rooms;
    for (size_t lane = 0; lane < lengths.size(); ++lane) { rooms.push_back(std::max(lengths[lane], held_[lane])); }
    return rooms;
}

// Entries that lanes have room for.
std::vector<int64_t> BucketLanes::rooms_there() const {
    if (is_base_) { return at_least(lengths_); }
    std::vector<int64_t> rooms = places_.rooms;
    for (size_t lane = 0; lane < rooms.size(); ++lane) { rooms[lane] += places_.starts[lane]; }
    return rooms;
}

bool BucketLanes::has_room(std::span<const int64_t> lengths) const noexcept {
    for (size_t lane = 0; lane < lengths.size(); ++lane) {
        if (lengths[lane] > places_.starts[lane] + places_.rooms[lane]) { return false; }
    }
    return true;
}

LanePieces BucketLanes::pieces(int lane) const noexcept {
    const auto l = static_cast<size_t>(lane);
    return {places_.starts[l], places_.ends[l], seen_[l]};
}

void BucketLanes::see_pieces() noexcept {
    in_pieces_ = false;
    for (int lane = 0; lane < rows().n_lanes; ++lane) { in_pieces_ = in_pieces_ || !pieces(lane).is_one(); }
}

BucketLanes::Share BucketLanes::as_it_is() {
    if (!waits_to_move_) { return {this, rooms_there(), lengths_}; }
    return {this, at_least(lengths_), lengths_, &kept_};
}

// What has to move anyway, or would in so many tokens.
BucketLanes::Share BucketLanes::with_room_ahead(int64_t n) {
    Share share = as_it_is();
    if (is_base_) { return share; }
    std::vector<int64_t> lengths = lengths_;
    for (int64_t & length : lengths) { length += n; }
    if (waits_to_move_ || !has_room(lengths)) { share.rooms = at_least(lengths); }
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
    const std::vector<SharedStart> shared = share_starts(shares, places);
    std::vector<std::shared_ptr<LanePool>> before;
    before.reserve(shares.size());
    for (size_t i = 0; i < shares.size(); ++i) {
        const BucketLanes & store = *shares[i].store;
        to_come[i] = {store.k(), store.v(), shares[i].lengths,
                      [&share = shares[i]](int lane, int64_t row) { return share.cell(lane, row); }};
        if (store.pool_ && std::ranges::find(before, store.pool_) == before.end()) { before.push_back(store.pool_); }
    }
    const BucketLanes & first = *shares.front().store;
    for (size_t i = 0; i < shares.size(); ++i) {  // what is dropped of it later is then written down without memory
        for (size_t lane = 0; lane < places[i].starts.size(); ++lane) {
            shares[i].store->seen_[lane].reserve(static_cast<size_t>(places[i].starts[lane]));
        }
    }
    PITH_ASSIGN_OR_RETURN(auto pool, LanePool::make(first.rows(), *first.device_, places, shared, to_come));
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
        const size_t of_row = store->rows().bytes();
        const LanePlaces & places = store->places_;
        store->allocated_bytes_ = static_cast<size_t>(places.n_cells()) * of_row;
        store->shared_bytes_ = 0;
        for (size_t lane = 0; lane < places.starts.size(); ++lane) {
            const bool counts_it = places.counted[lane] > places.rooms[lane];
            if (!counts_it) { store->shared_bytes_ += static_cast<size_t>(places.starts[lane]) * of_row; }
        }
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
    for (auto & rows : seen_) { rows.clear(); }
    std::ranges::copy(places_.first_cells, first_cells_.begin());
    see_pieces();
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
    is_base_ = false;  // it grows
    if (has_room(lengths)) { return false; }
    Share share = as_it_is();
    share.rooms = at_least(lengths);
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
        store.is_base_ = false;  // it grows
        shares.push_back(store.as_it_is());
        if (!store.has_room(one.lengths)) { shares.back().rooms = store.at_least(one.lengths); }
        if (store.pool_ && std::ranges::find(pools, store.pool_) == pools.end()) { pools.push_back(store.pool_); }
    }
    if (has_room_together(stores)) { return false; }
    PITH_RETURN_IF_ERROR(on_devices([&] { return lay_out(shares_of(pools, std::move(shares))); }));
    return true;
}

void BucketLanes::move_out() noexcept {
    if (!pool_ || pool_->stores().size() < 2) { return; }
    try {
        if (on_devices([&] { return lay_out({as_it_is()}); }).ok()) { return; }
    } catch (const std::bad_alloc &) {}  // then it stays
    say_that_it_stays();
}

// Once: the others are as long as memory is.
void BucketLanes::say_that_it_stays() const noexcept {
    static std::atomic_flag said;
    if (said.test_and_set()) { return; }
    static_cast<void>(guarded([&]() -> Status {
        log_line(LogLevel::kWarning,
                 "there is no memory on " + device_->name() + " to move what rests of a sequence away from others' keys and " +
                     "values, " + with_commas(static_cast<int64_t>(allocated_bytes_)) +
                     " bytes of a layer: it moves whenever they do, which takes time; use a smaller budget, or run " +
                     "fewer sequences at a time (said once)");
        return {};
    }));
}

void BucketLanes::hold_room(std::span<const int64_t> lengths) noexcept {
    for (size_t lane = 0; lane < held_.size(); ++lane) {
        held_[lane] = std::max({held_[lane], lengths_[lane], lengths.empty() ? 0 : lengths[lane]});
    }
}

void BucketLanes::let_go_of_room() noexcept {
    std::ranges::fill(held_, 0);
}

bool BucketLanes::compact(const Ragged<int32_t> & keep) noexcept {
    settle();
    bool any_shared = false;
    for (int lane = 0; lane < rows().n_lanes; ++lane) { any_shared = any_shared || is_shared(lane); }
    try {
        Share share = as_it_is();
        share.lengths.clear();
        for (int lane = 0; lane < rows().n_lanes; ++lane) { share.lengths.push_back(keep.length(lane)); }
        share.rooms = at_least(share.lengths);
        const auto as_large = [](int64_t room, int64_t cells) { return room_for(room) == cells; };
        if (share.lengths == lengths_ && (any_shared || std::ranges::equal(share.rooms, places_.rooms, as_large))) {
            return true;  // nothing goes
        }
        if (pool_ && pool_->holding != nullptr) {
            kept_ = keep;
            waits_to_move_ = true;
            return true;
        }
        share.kept = &keep;
        if (change(share).ok()) { return true; }
    } catch (const std::bad_alloc &) {}
    if (any_shared) { compact_in_place(keep); }
    return any_shared;
}

// By itself, or where there is no memory for that, where it is.
void BucketLanes::settle_alone() noexcept {
    try {
        if (on_devices([&] { return lay_out({as_it_is()}); }).ok()) { return; }
    } catch (const std::bad_alloc &) {}
    waits_to_move_ = false;
    compact_in_place(kept_);
    kept_ = {};
    for (int lane = 0; lane < rows().n_lanes; ++lane) { set_length(lane, lengths_[static_cast<size_t>(lane)], false); }
}

void BucketLanes::set_length(int lane, int64_t length, bool /*frees*/) noexcept {
    const auto l = static_cast<size_t>(lane);
    lengths_[l] = length;
    // What is added behind a cut does not come into the start. (Of what waits, lay_out() sees to that.)
    if (waits_to_move_ || length >= places_.starts[l]) { return; }
    places_.starts[l] = length;
    if (!seen_[l].empty()) { seen_[l].resize(static_cast<size_t>(length)); }
    see_pieces();
}

}  // namespace pith
