// cache_layout.h - the lanes that a session of a model has. Stage: set-up.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "cache/kv_type.h"
#include "cache/page_memory.h"
#include "cache/ragged_cache.h"
#include "model/model_file.h"

namespace pith {

CacheLayout cache_layout(const ModelFile & model, KvType type_k, KvType type_v);

// What lanes of so many entries take when they have just been evicted, in pages. lengths: [lane of the model].
size_t page_bytes(const CacheLayout & layout, std::span<const int> lengths);

// What the lanes of all layers with a window take at most, in pages, while n_new tokens are on their way through them.
size_t window_bytes(const CacheLayout & layout, int64_t n_new);

// And what recurrent layers take: their states, and those that a call which fails goes back to.
size_t ungoverned_bytes(const CacheLayout & layout, int64_t n_new);

}  // namespace pith
