// cache_layout.h - the lanes that a session of a model has. Stage: set-up.
#pragma once

#include "cache/kv_type.h"
#include "cache/ragged_cache.h"
#include "model/model_file.h"

namespace pith {

CacheLayout cache_layout(const ModelFile & model, KvType type_k, KvType type_v);

}  // namespace pith
