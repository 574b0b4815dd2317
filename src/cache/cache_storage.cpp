// cache_storage.cpp - the stores behind a cache's lanes: made, moved to larger ones, frozen, forked.
#include <algorithm>
#include <atomic>
#include <cassert>
#include <limits>
#include <new>
#include <string>
#include <utility>

#include "cache/bucket_lanes.h"
#include "cache/page_lanes.h"
#include "cache/ragged_cache.h"
#include "core/guarded.h"
#include "core/items.h"

namespace pith {
namespace {

Status check_block(Item item, ggml_type type, int head_dim) {
    const auto block = static_cast<int>(ggml_blck_size(type));
    if (head_dim % block == 0) { return {}; }
    return {ErrorCode::kUnsupported, item + " " + ggml_type_name(type) + ": its blocks of " + std::to_string(block) +
                                         " do not divide the model's head size " + std::to_string(head_dim) + "; use f16"};
}

}  // namespace

uint64_t RaggedCache::next_storage_id() noexcept {
    static std::atomic<uint64_t> n_storages{0};
    return ++n_storages;
}

RaggedCache::RaggedCache(const CacheLayout & layout)
    : layout_(layout), first_lanes_({0}), storage_id_(next_storage_id()), layers_(static_cast<size_t>(layout.n_layers())) {
    for (int l = 0; l < layout.n_layers(); ++l) { first_lanes_.push_back(first_lanes_.back() + layout.lanes(l).n_kv_heads); }
    positions_.resize(static_cast<size_t>(layout.n_seqs) * static_cast<size_t>(n_lanes_of_seq()));
    turned_.resize(positions_.size());
}

RaggedCache::~RaggedCache() = default;

Status RaggedCache::check_types(const CacheLayout & layout) {
    for (int l = 0; l < layout.n_layers(); ++l) {
        PITH_RETURN_IF_ERROR(check_block(item::kTypeK, layout.type_k, layout.lanes(l).head_dim));
        PITH_RETURN_IF_ERROR(check_block(item::kTypeV, layout.type_v, layout.lanes(l).head_dim_v));
    }
    return {};
}

// A new one where there is none, or one in pages.
Result<std::unique_ptr<LaneStore>> RaggedCache::make_store(int layer, int64_t capacity, LaneStore::Use use,
                                                           std::shared_ptr<PageFile> & file) const {
    if (layers_[static_cast<size_t>(layer)].store == nullptr) {
        if (auto device = layout_.device(layer)) { return BucketLanes::make(layout_.rows(layer), std::move(device)); }
    }
    return PageLanes::make(layout_.rows(layer), capacity, use, file);
}

// All layers in pages have as many cells to a lane: where rows of unlike sizes round the number up unlike, the largest is asked
// for again. Of lanes with room of their own nothing new is made, once they are there.
Result<std::vector<std::unique_ptr<LaneStore>>> RaggedCache::make_stores(int64_t capacity, LaneStore::Use use) const {
    for (;;) {
        std::vector<std::unique_ptr<LaneStore>> stores;
        std::shared_ptr<PageFile> file;
        int64_t least = std::numeric_limits<int64_t>::max();
        int64_t most = 0;
        for (int l = 0; l < layout_.n_layers(); ++l) {
            std::unique_ptr<LaneStore> & made = stores.emplace_back();
            const auto & there = layers_[static_cast<size_t>(l)].store;
            if (there && there->has_own_room()) { continue; }
            PITH_ASSIGN_OR_RETURN(made, make_store(l, capacity, use, file));
            if (made->has_own_room()) { continue; }
            least = std::min(least, made->capacity());
            most = std::max(most, made->capacity());
        }
        if (least >= most) { return stores; }
        capacity = most;
    }
}

Result<std::unique_ptr<RaggedCache>> RaggedCache::make(const CacheLayout & layout, int64_t capacity) {
    PITH_RETURN_IF_ERROR(check_types(layout));
    std::unique_ptr<RaggedCache> cache(new RaggedCache(layout));
    PITH_ASSIGN_OR_RETURN(auto stores, cache->make_stores(capacity, LaneStore::Use::kAlone));
    for (size_t l = 0; l < stores.size(); ++l) { cache->layers_[l].store = std::move(stores[l]); }
    cache->read_capacity();
    return cache;
}

// Of the layers in pages, which are alike.
void RaggedCache::read_capacity() noexcept {
    for (const Layer & layer : layers_) {
        capacity_ = layer.store->capacity();
        if (!layer.store->has_own_room()) { return; }
    }
}

bool RaggedCache::any_in_buckets() const {
    return std::ranges::any_of(layers_, [](const Layer & layer) { return layer.store->has_own_room(); });
}

Status RaggedCache::health() const {
    for (const Layer & layer : layers_) { PITH_RETURN_IF_ERROR(layer.store->health()); }
    return {};
}

std::vector<int64_t> RaggedCache::lengths_of(int layer) const {
    std::vector<int64_t> lengths(static_cast<size_t>(layout_.rows(layer).n_lanes));
    for (int seq = 0; seq < layout_.n_seqs; ++seq) {
        for (int h = 0; h < n_kv_heads(layer); ++h) {
            lengths[static_cast<size_t>(in_layer(seq, h))] = length(lane(seq, layer, h));
        }
    }
    return lengths;
}

int RaggedCache::longest() const {
    int n = 0;
    for (int i = 0; i < n_lanes(); ++i) { n = std::max(n, length(i)); }
    return n;
}

// lengths: [lane of the layer].
Status RaggedCache::make_own_room(int layer, std::span<const int64_t> lengths) {
    count_peak();
    const size_t bytes_before = store(layer).allocated_bytes();
    PITH_ASSIGN_OR_RETURN(const bool moved, store(layer).make_room(lengths));
    if (!moved) { return {}; }
    book_move(layer, bytes_before);
    count_peak();
    storage_id_ = next_storage_id();
    return {};
}

// So many entries more in each lane of each.
std::vector<LaneStore::RoomFor> RaggedCache::room_for(std::span<RaggedCache * const> caches, int layer, int64_t n) {
    std::vector<LaneStore::RoomFor> stores;
    for (RaggedCache * cache : caches) {
        stores.push_back({&cache->store(layer), cache->lengths_of(layer)});
        for (int64_t & length : stores.back().lengths) { length += n; }
    }
    return stores;
}

Result<bool> RaggedCache::make_room_together(std::span<RaggedCache * const> caches, int layer, int64_t n) {
    std::vector<size_t> bytes_before;
    for (RaggedCache * cache : caches) {
        cache->count_peak();
        bytes_before.push_back(cache->store(layer).allocated_bytes());
    }
    LaneStore & first = caches.front()->store(layer);
    PITH_ASSIGN_OR_RETURN(const bool moved, first.make_room_together(room_for(caches, layer, n)));
    for (size_t i = 0; moved && i < caches.size(); ++i) {
        caches[i]->book_move(layer, bytes_before[i]);
        caches[i]->count_peak();
        caches[i]->storage_id_ = next_storage_id();
    }
    return moved;
}

Result<bool> RaggedCache::reserve_together(std::span<RaggedCache * const> caches, int64_t n) {
    const RaggedCache & first = *caches.front();
    const int n_layers = first.layout_.n_layers();
    bool moves = false;
    for (int layer = 0; layer < n_layers && !moves; ++layer) {
        moves = first.in_buckets(layer) && !first.store(layer).has_room_together(room_for(caches, layer, n));
    }
    bool together = true;
    for (int layer = 0; layer < n_layers; ++layer) {
        const bool in_buckets = first.in_buckets(layer);
        Status status;
        if (in_buckets && moves) { status = make_room_together(caches, layer, n + BucketLanes::kAhead).status(); }
        if (!status.ok() && status.code() != ErrorCode::kOutOfMemory) { return status; }
        together = together && status.ok();
        for (size_t i = 0; (!in_buckets || !status.ok()) && i < caches.size(); ++i) {
            PITH_RETURN_IF_ERROR(caches[i]->reserve(0, layer, n));
        }
    }
    return together;
}

// Those that find no memory for it move at once.
std::vector<std::unique_ptr<LaneStore::HeldMoves>> RaggedCache::hold_moves(std::span<RaggedCache * const> caches) noexcept {
    std::vector<std::unique_ptr<LaneStore::HeldMoves>> held;
    try {
        for (RaggedCache * cache : caches) {
            for (int layer = 0; cache->layout_.any_on_device() && layer < cache->layout_.n_layers(); ++layer) {
                if (auto one = cache->store(layer).hold_moves()) { held.push_back(std::move(one)); }
            }
        }
    } catch (const std::bad_alloc &) {}
    return held;
}

uint64_t RaggedCache::n_moves() const {
    uint64_t n = 0;
    for (const Layer & layer : layers_) { n += layer.store->n_moves(); }
    return n;
}

Status RaggedCache::make_whole(std::span<const LayerKeep> keeps) {
    for (const LayerKeep & one : keeps) {
        if (in_buckets(one.layer)) { PITH_RETURN_IF_ERROR(make_whole(one.layer, one.keep)); }
    }
    return {};
}

Status RaggedCache::make_whole() {
    for (int layer = 0; layer < layout_.n_layers(); ++layer) {
        if (in_buckets(layer)) { PITH_RETURN_IF_ERROR(make_whole(layer, nullptr)); }
    }
    return {};
}

Status RaggedCache::make_whole(int layer, const Ragged<int32_t> * keep) {
    count_peak();
    const size_t bytes_before = store(layer).allocated_bytes();
    const uint64_t n_moves = store(layer).n_moves();
    PITH_RETURN_IF_ERROR(store(layer).make_whole(keep));
    if (store(layer).n_moves() == n_moves) { return {}; }
    book_move(layer, bytes_before);
    count_peak();
    storage_id_ = next_storage_id();
    return {};
}

void RaggedCache::hold_room() noexcept {
    for (const Layer & layer : layers_) { layer.store->hold_room({}); }
}

// Of all lanes of a layer, where these of one sequence get so much.
std::vector<int64_t> RaggedCache::lengths_with(int seq, int layer, std::span<const int64_t> lengths) const {
    std::vector<int64_t> all = lengths_of(layer);
    for (int h = 0; h < n_kv_heads(layer); ++h) {
        int64_t & most = all[static_cast<size_t>(in_layer(seq, h))];
        most = std::max(most, lengths[static_cast<size_t>(h)]);
    }
    return all;
}

Status RaggedCache::make_room(int seq, int layer, std::span<const int64_t> lengths) {
    for (int h = 0; h < n_kv_heads(layer); ++h) {
        positions_of(lane(seq, layer, h)).reserve(static_cast<size_t>(lengths[static_cast<size_t>(h)]));
    }
    if (in_buckets(layer)) { return make_own_room(layer, lengths_with(seq, layer, lengths)); }
    const int64_t longest = std::ranges::max(lengths);
    if (longest <= capacity_) { return {}; }
    const Status twice = move_to(2 * longest, LaneStore::Use::kAlone);
    return twice.code() == ErrorCode::kOutOfMemory ? move_to(longest, LaneStore::Use::kAlone) : twice;  // addresses are limited
}

Status RaggedCache::hold_room(int seq, int layer, std::span<const int64_t> lengths) {
    PITH_RETURN_IF_ERROR(make_room(seq, layer, lengths));
    if (in_buckets(layer)) { store(layer).hold_room(lengths_with(seq, layer, lengths)); }
    return {};
}

void RaggedCache::let_go_of_room() noexcept {
    for (const Layer & layer : layers_) { layer.store->let_go_of_room(); }
}

// All stores are there before the first is left, and nothing fails from then on; what has been read is given back at once, so
// that nothing is held twice. A fork has copied all it reads when it has moved.
Status RaggedCache::move_to(int64_t capacity, LaneStore::Use use) {
    PITH_ASSIGN_OR_RETURN(auto moved, make_stores(capacity, use));
    std::vector<std::vector<int64_t>> lengths;  // [layer]
    for (int l = 0; l < layout_.n_layers(); ++l) { lengths.push_back(lengths_of(l)); }
    for (size_t l = 0; l < layers_.size(); ++l) {
        if (!moved[l]) { continue; }  // it has room of its own
        Layer & of = layers_[l];
        of.most_bytes = std::max(of.most_bytes, moved[l]->take_from(*of.store, lengths[l]));
        of.store = std::move(moved[l]);
        count_peak();
    }
    read_capacity();
    storage_id_ = next_storage_id();
    return {};
}

Status RaggedCache::freeze(int64_t room) {
    PITH_RETURN_IF_ERROR(move_to(longest() + room, LaneStore::Use::kToFork));
    for (int l = 0; l < layout_.n_layers(); ++l) {  // what rests is not moved with those that go on
        store(l).move_out();
        count_peak();
    }
    frozen_ = true;
    return {};
}

Result<std::unique_ptr<RaggedCache>> RaggedCache::copy(int64_t most, int64_t room, bool to_fork) const {
    std::unique_ptr<RaggedCache> made(new RaggedCache(layout_));
    const LaneStore::Use use = to_fork ? LaneStore::Use::kToFork : LaneStore::Use::kAlone;
    PITH_ASSIGN_OR_RETURN(auto stores, make_stores(std::min<int64_t>(most, longest()) + room, use));
    for (size_t i = 0; i < positions_.size(); ++i) {
        const auto n = std::min(most, std::ssize(positions_[i]));
        made->positions_[i].assign(positions_[i].begin(), positions_[i].begin() + n);
        const auto n_turned = std::min(n, std::ssize(turned_[i]));
        made->turned_[i].assign(turned_[i].begin(), turned_[i].begin() + n_turned);
    }
    made->shift_ = shift_;
    for (int l = 0; l < layout_.n_layers(); ++l) {
        const std::vector<int64_t> lengths = made->lengths_of(l);
        Layer & layer = made->layers_[static_cast<size_t>(l)];
        layer.store = std::move(stores[static_cast<size_t>(l)]);
        if (layer.store) {
            layer.store->copy_from(store(l), lengths);
        } else {  // with room of its own
            PITH_ASSIGN_OR_RETURN(layer.store, store(l).copy());
            for (size_t lane = 0; lane < lengths.size(); ++lane) {
                layer.store->set_length(static_cast<int>(lane), lengths[lane], /*frees=*/true);
            }
        }
        layer.n_moves = layer.store->n_moves();
        for (const int64_t n : lengths) { layer.n_entries += n; }
    }
    made->read_capacity();
    made->count_peak();
    made->frozen_ = to_fork;
    return made;
}

Result<std::unique_ptr<RaggedCache>> RaggedCache::fork() const {
    assert(frozen_);
    std::unique_ptr<RaggedCache> forked(new RaggedCache(layout_));
    for (size_t l = 0; l < layers_.size(); ++l) {
        PITH_ASSIGN_OR_RETURN(forked->layers_[l].store, store(static_cast<int>(l)).fork());
        forked->layers_[l].n_entries = layers_[l].n_entries;
        forked->layers_[l].n_moves = forked->layers_[l].store->n_moves();
    }
    forked->base_id_ = storage_id_;
    forked->capacity_ = capacity_;
    forked->positions_ = positions_;
    forked->turned_ = turned_;
    forked->shift_ = shift_;
    for (int l = 0; l < layout_.n_layers(); ++l) {
        for (int h = 0; layout_.governs(l) && h < n_kv_heads(l); ++h) {
            forked->peak_lane_entries_ = std::max(forked->peak_lane_entries_, length(lane(0, l, h)));
        }
    }
    return forked;
}

Result<std::unique_ptr<RaggedCache>> RaggedCache::share(std::unique_ptr<RaggedCache> & own, int64_t room) {
    PITH_RETURN_IF_ERROR(own->freeze(room));
    auto forked = guarded([&] { return own->fork(); });
    if (!forked.ok()) {
        own->thaw();
        return forked.status();
    }
    return std::exchange(own, std::move(*forked));
}

}  // namespace pith
