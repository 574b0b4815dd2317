// cache_layout.h - the lanes that a session of a model has. Stage: set-up.
#pragma once

#include "cache/kv_type.h"
#include "cache/ragged_cache.h"
#include "model/hparams.h"

namespace pith {

inline CacheLayout cache_layout(const Hparams & hp, KvType type_k, KvType type_v) {
    CacheLayout layout;
    layout.shape = {hp.n_layers, hp.n_kv_heads, hp.n_group(), hp.head_dim};
    layout.head_dim_v = hp.head_dim_v;
    layout.type_k = to_ggml(type_k);
    layout.type_v = to_ggml(type_v);
    return layout;
}

}  // namespace pith
