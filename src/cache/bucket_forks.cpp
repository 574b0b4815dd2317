// bucket_forks.cpp - lanes of one pool that begin alike: which share a start, and who leaves it.
#include "cache/bucket_lanes.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "device/device_work.h"

namespace pith {
namespace {

int64_t round_up(int64_t n, int64_t step) {
    return (n + step - 1) / step * step;
}

}  // namespace

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

}  // namespace pith
