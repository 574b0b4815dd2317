// cache_storage.cpp - the memory of a cache's lanes: reserved, moved to a larger place, frozen, forked.
#include <algorithm>
#include <atomic>
#include <cassert>
#include <cstring>
#include <numeric>
#include <string>
#include <utility>

#include "cache/ragged_cache.h"
#include "device/backend.h"
#include "ggml-backend.h"

namespace pith {
namespace {

// Cells per lane so that every lane starts on a page, in K and in V.
int64_t round_stride(const CacheLayout & layout, int64_t capacity) {
    const auto page = static_cast<int64_t>(page_size_bytes());
    const auto multiple = [page](size_t row) { return page / std::gcd(page, static_cast<int64_t>(row)); };
    const int64_t unit = std::lcm(multiple(layout.row_bytes_k()), multiple(layout.row_bytes_v()));
    return (std::max<int64_t>(capacity, 1) + unit - 1) / unit * unit;
}

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

RaggedCache::LayerStore::LayerStore(LayerStore && other) noexcept
    : memory(std::move(other.memory)),
      context(std::exchange(other.context, nullptr)),
      buffer(std::exchange(other.buffer, nullptr)),
      k(std::exchange(other.k, nullptr)),
      v(std::exchange(other.v, nullptr)),
      v_offset(other.v_offset) {}

RaggedCache::LayerStore & RaggedCache::LayerStore::operator=(LayerStore && other) noexcept {
    std::swap(memory, other.memory);
    std::swap(context, other.context);
    std::swap(buffer, other.buffer);
    std::swap(k, other.k);
    std::swap(v, other.v);
    std::swap(v_offset, other.v_offset);
    return *this;
}

RaggedCache::LayerStore::~LayerStore() {
    if (buffer != nullptr) { ggml_backend_buffer_free(buffer); }
    if (context != nullptr) { ggml_free(context); }
}

RaggedCache::RaggedCache(const CacheLayout & layout, int64_t stride)
    : layout_(layout), stride_(stride), storage_id_(next_storage_id()) {
    const auto n = static_cast<size_t>(layout.n_seqs) * static_cast<size_t>(layout.shape.n_lanes());
    positions_.resize(n);
    pages_k_.resize(n);
    pages_v_.resize(n);
    shared_k_.resize(n);
    shared_v_.resize(n);
}

RaggedCache::~RaggedCache() = default;

// Both tensors over the region that the store has. cells: of each.
Status RaggedCache::add_tensors(LayerStore & store, int64_t cells) const {
    store.v_offset = static_cast<size_t>(cells) * layout_.row_bytes_k();
    store.context = ggml_init({2 * ggml_tensor_overhead(), nullptr, true});
    store.buffer = cpu_buffer_from_ptr(store.memory.data(), store.memory.size_bytes());
    if (store.context == nullptr || store.buffer == nullptr) {
        return {ErrorCode::kOutOfMemory, "no memory for the KV cache's tensors"};
    }
    store.k = ggml_new_tensor_2d(store.context, layout_.type_k, layout_.shape.head_dim, cells);
    store.v = ggml_new_tensor_2d(store.context, layout_.type_v, layout_.head_dim_v, cells);
    if (ggml_backend_tensor_alloc(store.buffer, store.k, store.memory.data()) != GGML_STATUS_SUCCESS ||
        ggml_backend_tensor_alloc(store.buffer, store.v, store.memory.data() + store.v_offset) != GGML_STATUS_SUCCESS) {
        return {ErrorCode::kInternal, "the KV cache's tensors do not fit their region"};
    }
    return {};
}

Result<RaggedCache::LayerStore> RaggedCache::make_layer(int64_t stride, Use use) const {
    const int64_t cells = stride * layout_.shape.n_kv_heads * layout_.n_seqs;
    LayerStore store;
    const size_t size = static_cast<size_t>(cells) * layout_.entry_bytes();
    PITH_ASSIGN_OR_RETURN(store.memory, use == Use::kToFork ? PageMemory::reserve_to_fork(size) : PageMemory::reserve(size));
    PITH_RETURN_IF_ERROR(add_tensors(store, cells));
    return store;
}

Result<RaggedCache::LayerStore> RaggedCache::fork_layer(const LayerStore & base) const {
    LayerStore store;
    PITH_ASSIGN_OR_RETURN(store.memory, base.memory.fork());
    PITH_RETURN_IF_ERROR(add_tensors(store, base.k->ne[1]));
    return store;
}

Status RaggedCache::check_types(const CacheLayout & layout) {
    PITH_RETURN_IF_ERROR(check_block("--cache-type-k", layout.type_k, layout.shape.head_dim));
    return check_block("--cache-type-v", layout.type_v, layout.head_dim_v);
}

Result<std::unique_ptr<RaggedCache>> RaggedCache::make(const CacheLayout & layout, int64_t capacity) {
    PITH_RETURN_IF_ERROR(check_types(layout));
    std::unique_ptr<RaggedCache> cache(new RaggedCache(layout, round_stride(layout, capacity)));
    for (int l = 0; l < layout.shape.n_layers; ++l) {
        PITH_ASSIGN_OR_RETURN(LayerStore store, cache->make_layer(cache->stride_, Use::kAlone));
        cache->layers_.push_back(std::move(store));
    }
    return cache;
}

uint8_t * RaggedCache::lane_data(ggml_tensor * tensor, size_t row_bytes, int lane_in_layer, int64_t stride) {
    return static_cast<uint8_t *>(tensor->data) + static_cast<size_t>(lane_in_layer) * static_cast<size_t>(stride) * row_bytes;
}

// One layer at a time, so that moving never holds more than one layer twice. A fork has copied all it reads when it has moved.
Status RaggedCache::move_to(int64_t capacity, Use use) {
    const int64_t stride = round_stride(layout_, capacity);
    const int n_in_layer = layout_.shape.n_kv_heads * layout_.n_seqs;
    std::vector<LayerStore> moved;
    for (int l = 0; l < layout_.shape.n_layers; ++l) {
        PITH_ASSIGN_OR_RETURN(LayerStore store, make_layer(stride, use));
        moved.push_back(std::move(store));
    }
    for (int l = 0; l < layout_.shape.n_layers; ++l) {
        LayerStore & from = layers_[static_cast<size_t>(l)];
        LayerStore & to = moved[static_cast<size_t>(l)];
        for (int i = 0; i < n_in_layer; ++i) {
            const auto n = static_cast<size_t>(length(lane(i / layout_.shape.n_kv_heads, l, i % layout_.shape.n_kv_heads)));
            std::memcpy(lane_data(to.k, layout_.row_bytes_k(), i, stride), lane_data(from.k, layout_.row_bytes_k(), i, stride_),
                        n * layout_.row_bytes_k());
            std::memcpy(lane_data(to.v, layout_.row_bytes_v(), i, stride), lane_data(from.v, layout_.row_bytes_v(), i, stride_),
                        n * layout_.row_bytes_v());
        }
        from = LayerStore();
    }
    layers_ = std::move(moved);
    for (int i = 0; i < n_lanes(); ++i) { make_own(i, 0); }
    stride_ = stride;
    storage_id_ = next_storage_id();
    return {};
}

Status RaggedCache::freeze(int64_t room) {
    int longest = 0;
    for (int i = 0; i < n_lanes(); ++i) { longest = std::max(longest, length(i)); }
    PITH_RETURN_IF_ERROR(move_to(longest + room, Use::kToFork));
    frozen_ = true;
    return {};
}

Result<std::unique_ptr<RaggedCache>> RaggedCache::fork() const {
    assert(frozen_);
    std::unique_ptr<RaggedCache> forked(new RaggedCache(layout_, stride_));
    for (const LayerStore & base : layers_) {
        PITH_ASSIGN_OR_RETURN(LayerStore store, forked->fork_layer(base));
        forked->layers_.push_back(std::move(store));
    }
    forked->positions_ = positions_;
    forked->n_entries_ = n_entries_;
    forked->pages_k_ = forked->shared_k_ = pages_k_;
    forked->pages_v_ = forked->shared_v_ = pages_v_;
    forked->shared_bytes_ = allocated_bytes_;
    return forked;
}

}  // namespace pith
