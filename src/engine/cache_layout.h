// cache_layout.h - the lanes that a session of a model has. Stage: set-up.
#pragma once

#include <cstddef>
#include <span>

#include "cache/kv_type.h"
#include "cache/page_memory.h"
#include "cache/ragged_cache.h"
#include "model/arch/hparams.h"

namespace pith {

inline CacheLayout cache_layout(const Hparams & hp, KvType type_k, KvType type_v) {
    CacheLayout layout;
    layout.shape = {hp.n_layers, hp.n_kv_heads, hp.n_group(), hp.head_dim};
    layout.head_dim_v = hp.head_dim_v;
    layout.type_k = to_ggml(type_k);
    layout.type_v = to_ggml(type_v);
    layout.attention_scale = hp.attention_scale;
    return layout;
}

// What lanes of so many entries take when they have just been evicted, in pages.
inline size_t page_bytes(const CacheLayout & layout, std::span<const int> lengths) {
    size_t bytes = 0;
    for (const int n : lengths) {
        bytes += page_ceil(static_cast<size_t>(n) * layout.rows().bytes_k()) +
                 page_ceil(static_cast<size_t>(n) * layout.rows().bytes_v());
    }
    return bytes;
}

}  // namespace pith
