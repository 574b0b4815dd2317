// bucket_lanes.cpp - who lies in which pool, and with how much room.
#include "cache/bucket_lanes.h"

#include <ggml-backend.h>

#include <algorithm>
#include <atomic>
#include <cassert>
#include <limits>
#include <new>
#include <optional>
#include <string>
#include <utility>

#include "core/guarded.h"
#include "core/text.h"
#include "device/device_work.h"
#include "pith/log.h"

namespace pith {
namespace {

constexpr int64_t kScratchRows = 64;

int64_t round_up(int64_t n, int64_t step) {
    return (n + step - 1) / step * step;
}

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

// Of an ordinary lane all, if others begin with them; what a lane sees of a start is then its first rows, or nothing of it.
int64_t BucketLanes::of_start(const Share & share, int lane) {
    const BucketLanes & store = *share.store;
    const auto l = static_cast<size_t>(lane);
    const int64_t length = share.lengths[l];
    if (share.whole || !store.pool_ || (!store.is_base_ && !store.is_shared(lane))) { return 0; }
    const int64_t most = std::min(length, store.is_shared(lane) ? store.places_.starts[l] : length);
    if (!store.seen_[l].empty()) { return 0; }
    if (share.kept == nullptr) { return most; }
    const std::span<const int32_t> kept = share.kept->row(lane);
    int64_t n = 0;
    while (n < most && kept[static_cast<size_t>(n)] == n) { ++n; }
    const bool drops_some = n < most && kept[static_cast<size_t>(n)] < store.places_.starts[l];
    return drops_some ? 0 : n;
}

// A share's lane that may share a start: with those whose lanes begin at the same cell of the same pool.
struct BucketLanes::Seen {
    const LanePool * pool;
    int64_t first_cell;
    size_t store;
    int64_t n;
};

// The base's, while there is one; then whose they have been.
size_t BucketLanes::whose_bytes(std::span<const Share> shares, std::span<const Seen> alike, int lane) {
    const auto l = static_cast<size_t>(lane);
    const auto first = [&](const auto & is_it) {
        const auto found = std::ranges::find_if(alike, [&](const Seen & one) { return is_it(*shares[one.store].store); });
        return found == alike.end() ? std::optional<size_t>() : found->store;
    };
    const auto base = first([](const BucketLanes & store) { return store.is_base_; });
    if (base) { return *base; }
    const auto before = first([&](const BucketLanes & store) { return store.places_.counted[l] > store.places_.rooms[l]; });
    return before.value_or(alike.front().store);
}

// Lanes of one pool that begin at the same cell share a start, where what their copies would take beside it is more than what
// masks over all of the room take beside those over rooms of their own (f16, a line of the room for each lane that grows).
std::vector<SharedStart> BucketLanes::share_starts(std::span<const Share> shares, std::span<LanePlaces> places) {
    std::vector<SharedStart> found;
    const LaneRows & rows = shares.front().store->rows();
    for (size_t i = 0; i < shares.size(); ++i) {
        for (const int64_t room : shares[i].rooms) { places[i].rooms.push_back(room_for(room)); }
        places[i].starts.assign(places[i].rooms.size(), 0);
    }
    for (int lane = 0; lane < rows.n_lanes; ++lane) {
        const auto l = static_cast<size_t>(lane);
        std::vector<Seen> all;
        for (size_t i = 0; i < shares.size(); ++i) {
            const BucketLanes & store = *shares[i].store;
            if (const int64_t n = of_start(shares[i], lane); n > 0) {
                all.push_back({store.pool_.get(), store.first_cells_[l], i, n});
            }
        }
        const auto key = [](const Seen & one) { return std::pair(one.pool, one.first_cell); };
        std::ranges::stable_sort(all, {}, key);
        for (auto first = all.begin(); first != all.end();) {
            const auto end = std::find_if(first, all.end(), [&](const Seen & one) { return key(one) != key(*first); });
            const std::span<const Seen> alike(first, end);
            first = end;
            if (alike.size() < 2) { continue; }
            SharedStart start{.lane = lane, .counts_it = whose_bytes(shares, alike, lane)};
            int64_t ends = 0;
            int64_t alone = 0;          // cells of rooms of their own
            int64_t n_growing = 0;      // lanes that queries come to
            int64_t alone_growing = 0;  // and their rooms
            for (const Seen & one : alike) {
                if (one.n > start.n) {
                    start.n = one.n;
                    start.longest = one.store;
                }
                start.stores.push_back(one.store);
                const int64_t own = round_up(shares[one.store].rooms[l] - one.n, kEndStep);
                ends += own;
                alone += places[one.store].rooms[l];
                n_growing += own > 0 ? 1 : 0;
                alone_growing += own > 0 ? places[one.store].rooms[l] : 0;
            }
            start.room = room_for(start.n + ends);
            const int64_t saved = (alone - start.room) * static_cast<int64_t>(rows.bytes());
            const int64_t more_masks = (n_growing * start.room - alone_growing) * static_cast<int64_t>(sizeof(ggml_fp16_t));
            if (saved <= more_masks) { continue; }
            for (const Seen & one : alike) {
                places[one.store].starts[l] = one.n;
                places[one.store].rooms[l] = round_up(shares[one.store].rooms[l] - one.n, kEndStep);
            }
            found.push_back(std::move(start));
        }
    }
    return found;
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

void BucketLanes::hold_room() noexcept {
    for (size_t lane = 0; lane < held_.size(); ++lane) { held_[lane] = std::max(held_[lane], lengths_[lane]); }
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

// What stays of a start is written down, and seen through masks; what lies behind it moves.
void BucketLanes::compact_in_place(const Ragged<int32_t> & keep) noexcept {
    for (int lane = 0; lane < rows().n_lanes; ++lane) {
        const auto l = static_cast<size_t>(lane);
        const std::span<const int32_t> kept = keep.row(lane);
        const auto n_before = static_cast<int32_t>(places_.starts[l]);
        const auto n_seen = static_cast<size_t>(std::ranges::lower_bound(kept, n_before) - kept.begin());
        if (n_seen < static_cast<size_t>(n_before)) {
            std::vector<int32_t> & seen = seen_[l];
            const bool was_first = seen.empty();
            if (was_first) { seen.resize(n_seen); }  // there is memory for it: lay_out()
            for (size_t i = 0; i < n_seen; ++i) { seen[i] = was_first ? kept[i] : seen[static_cast<size_t>(kept[i])]; }
            seen.resize(n_seen);
            if (n_seen == 0 || seen.back() == static_cast<int32_t>(n_seen) - 1) { seen.clear(); }  // the first ones
            places_.starts[l] = static_cast<int64_t>(n_seen);
            see_pieces();
        }
        for (size_t to = n_seen; to < kept.size();) {
            size_t n = 1;
            while (to + n < kept.size() && kept[to + n] == kept[to] + static_cast<int32_t>(n)) { ++n; }
            const int64_t from = static_cast<int64_t>(n_seen) + kept[to] - n_before;
            if (from != static_cast<int64_t>(to)) { move(lane, from, static_cast<int64_t>(to), static_cast<int64_t>(n)); }
            to += n;
        }
    }
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

Status BucketLanes::make_whole(const Ragged<int32_t> * keep) {
    settle();
    PITH_RETURN_IF_ERROR(health_);
    const auto is_in_the_way = [&](int lane) {
        const int64_t n = places_.starts[static_cast<size_t>(lane)];
        if (n == 0 || keep == nullptr) { return n > 0; }
        const std::span<const int32_t> kept = keep->row(lane);  // ascending
        return std::ssize(kept) < n || kept[static_cast<size_t>(n) - 1] != n - 1;
    };
    bool any = false;
    for (int lane = 0; lane < rows().n_lanes; ++lane) { any = any || is_in_the_way(lane) || begins_others(lane); }
    if (!any) { return {}; }
    const bool was_base = std::exchange(is_base_, false);
    Share share = as_it_is();
    share.whole = true;
    const Status status = change(share);
    if (!status.ok()) { is_base_ = was_base; }
    return status;
}

// Whether others' starts lie where a lane's entries do, which is in no start itself.
bool BucketLanes::begins_others(int lane) const noexcept {
    const auto l = static_cast<size_t>(lane);
    if (!pool_ || is_shared(lane)) { return false; }
    return std::ranges::any_of(pool_->stores(), [&](const BucketLanes * other) {
        return other != this && other->is_shared(lane) && other->first_cells_[l] == first_cells_[l];
    });
}

// All that a fork begins with is to lie in one piece, behind which nothing comes.
Result<std::unique_ptr<LaneStore>> BucketLanes::fork() const {
    PITH_RETURN_IF_ERROR(health_);
    bool is_one = pool_ != nullptr && k_ != nullptr;
    for (int lane = 0; lane < rows().n_lanes; ++lane) {
        const auto l = static_cast<size_t>(lane);
        const bool is_ordinary = !is_shared(lane) && places_.ends[l] == 0;
        is_one = is_one && seen_[l].empty() && (is_ordinary || lengths_[l] <= places_.starts[l]);
    }
    if (!is_one) { return copy(); }
    std::unique_ptr<BucketLanes> store(new BucketLanes(rows(), device_));
    LanePlaces places = places_;
    places.starts = places.ends = lengths_;
    for (auto * none : {&places.rooms, &places.counted}) { std::ranges::fill(*none, 0); }
    for (size_t lane = 0; lane < lengths_.size(); ++lane) { store->seen_[lane].reserve(static_cast<size_t>(lengths_[lane])); }
    store->lengths_ = lengths_;
    std::shared_ptr<LanePool> pool = pool_;
    pool->stores().reserve(pool->stores().size() + 1);
    store->take(pool, places);
    is_base_ = true;
    count_bytes(*pool);
    return std::unique_ptr<LaneStore>(std::move(store));
}

Result<std::unique_ptr<LaneStore>> BucketLanes::copy() const {
    PITH_RETURN_IF_ERROR(health_);
    std::unique_ptr<BucketLanes> store(new BucketLanes(rows(), device_));
    PITH_RETURN_IF_ERROR(on_devices([&]() -> Status {
        LanePlaces places;
        for (const int64_t length : lengths_) { places.rooms.push_back(room_for(length)); }
        places.starts.assign(lengths_.size(), 0);
        const LanesToCome to_come = {k(), v(), lengths_, [this](int lane, int64_t i) { return cell(lane, i); }};
        PITH_ASSIGN_OR_RETURN(auto pool, LanePool::make(rows(), *device_, std::span(&places, 1), {}, std::span(&to_come, 1)));
        pool->stores().reserve(1);
        store->take(pool, places);
        count_bytes(*pool);
        return {};
    }));
    store->lengths_ = lengths_;
    return std::unique_ptr<LaneStore>(std::move(store));
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

template <class Visit>
void BucketLanes::each_piece(int lane, int64_t first, int64_t n, const Visit & visit) const {
    for (int64_t done = 0; done < n;) {
        const int64_t begin = cell(lane, first + done);
        int64_t some = in_pieces_ ? 1 : n - done;
        while (done + some < n && cell(lane, first + done + some) == begin + some) { ++some; }
        visit(static_cast<size_t>(begin), static_cast<size_t>(some));
        done += some;
    }
}

void BucketLanes::write(int lane, int64_t first, int64_t n, const uint8_t * k, const uint8_t * v) noexcept {
    if (n == 0) { return; }
    assert(first >= places_.starts[static_cast<size_t>(lane)]);  // make_whole() comes first
    const size_t of_k = rows().bytes_k();
    const size_t of_v = rows().bytes_v();
    on_device([&] {
        each_piece(lane, first, n, [&](size_t at, size_t count) {
            ggml_backend_tensor_set(k_, k, at * of_k, count * of_k);
            k += count * of_k;
            if (v == nullptr) { return; }
            ggml_backend_tensor_set(v_, v, at * of_v, count * of_v);
            v += count * of_v;
        });
    });
}

void BucketLanes::read(int lane, int64_t first, int64_t n, uint8_t * k, uint8_t * v) const noexcept {
    if (n == 0) { return; }
    const size_t of_k = rows().bytes_k();
    const size_t of_v = rows().bytes_v();
    on_device([&] {
        each_piece(lane, first, n, [&](size_t at, size_t count) {
            ggml_backend_tensor_get(k_, k, at * of_k, count * of_k);
            k += count * of_k;
            if (v == nullptr) { return; }
            ggml_backend_tensor_get(v_, v, at * of_v, count * of_v);
            v += count * of_v;
        });
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
