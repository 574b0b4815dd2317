// cache_storage.cpp - the stores behind a cache's lanes: made, moved to larger ones, frozen, forked.
#include <algorithm>
#include <atomic>
#include <cassert>
#include <string>
#include <utility>

#include "cache/page_lanes.h"
#include "cache/ragged_cache.h"

namespace pith {
namespace {

uint64_t next_storage_id() {
    static std::atomic<uint64_t> n_storages{0};
    return ++n_storages;
}

Status check_block(const char * flag, ggml_type type, int head_dim) {
    const auto block = static_cast<int>(ggml_blck_size(type));
    if (head_dim % block == 0) { return {}; }
    return {ErrorCode::kUnsupported, std::string(flag) + " " + ggml_type_name(type) + ": its blocks of " +
                                         std::to_string(block) + " do not divide the model's head size " +
                                         std::to_string(head_dim) + "; use f16"};
}

}  // namespace

RaggedCache::RaggedCache(const CacheLayout & layout)
    : layout_(layout),
      storage_id_(next_storage_id()),
      layers_(static_cast<size_t>(layout.shape.n_layers)),
      positions_(static_cast<size_t>(layout.n_seqs) * static_cast<size_t>(layout.shape.n_lanes())) {}

RaggedCache::~RaggedCache() = default;

Status RaggedCache::check_types(const CacheLayout & layout) {
    PITH_RETURN_IF_ERROR(check_block("--cache-type-k", layout.type_k, layout.shape.head_dim));
    return check_block("--cache-type-v", layout.type_v, layout.head_dim_v);
}

Result<std::unique_ptr<RaggedCache>> RaggedCache::make(const CacheLayout & layout, int64_t capacity) {
    PITH_RETURN_IF_ERROR(check_types(layout));
    std::unique_ptr<RaggedCache> cache(new RaggedCache(layout));
    for (Layer & layer : cache->layers_) { PITH_ASSIGN_OR_RETURN(layer.store, PageLanes::make(layout.rows(), capacity)); }
    cache->capacity_ = cache->layers_.front().store->capacity();
    return cache;
}

// All stores are there before the first is left; then one layer at a time, so that moving never holds more than one layer
// twice. A fork has copied all it reads when it has moved.
Status RaggedCache::move_to(int64_t capacity, LaneStore::Use use) {
    std::vector<std::unique_ptr<LaneStore>> moved;
    for (const Layer & layer : layers_) { PITH_ASSIGN_OR_RETURN(moved.emplace_back(), layer.store->another(capacity, use)); }
    std::vector<int64_t> lengths(static_cast<size_t>(layout_.rows().n_lanes));
    for (int l = 0; l < layout_.shape.n_layers; ++l) {
        for (int seq = 0; seq < layout_.n_seqs; ++seq) {
            for (int h = 0; h < layout_.shape.n_kv_heads; ++h) {
                lengths[static_cast<size_t>(in_layer(seq, h))] = length(lane(seq, l, h));
            }
        }
        LaneStore & to = *moved[static_cast<size_t>(l)];
        to.copy_from(store(l), lengths);
        layers_[static_cast<size_t>(l)].store = std::move(moved[static_cast<size_t>(l)]);
        count_peak();
    }
    capacity_ = layers_.front().store->capacity();
    storage_id_ = next_storage_id();
    return {};
}

Status RaggedCache::freeze(int64_t room) {
    int longest = 0;
    for (int i = 0; i < n_lanes(); ++i) { longest = std::max(longest, length(i)); }
    PITH_RETURN_IF_ERROR(move_to(longest + room, LaneStore::Use::kToFork));
    frozen_ = true;
    return {};
}

Result<std::unique_ptr<RaggedCache>> RaggedCache::fork() const {
    assert(frozen_);
    std::unique_ptr<RaggedCache> forked(new RaggedCache(layout_));
    for (size_t l = 0; l < layers_.size(); ++l) {
        PITH_ASSIGN_OR_RETURN(forked->layers_[l].store, layers_[l].store->fork());
        forked->layers_[l].n_entries = layers_[l].n_entries;
    }
    forked->capacity_ = capacity_;
    forked->positions_ = positions_;
    return forked;
}

}  // namespace pith
