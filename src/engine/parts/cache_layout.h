// cache_layout.h - the lanes that a session of a model has. Stage: set-up.
#pragma once

#include "cache/cold_store.h"
#include "cache/kv_type.h"
#include "cache/ragged_cache.h"
#include "model/model_file.h"
#include "pith/session.h"

namespace pith {

CacheLayout cache_layout(const ModelFile & model, KvType type_k, KvType type_v);

// Rows of quantised types will be rotated before they are rounded, keys without what the model's bias adds to all of them: that
// is read here.   Errors: of a device that holds the biases.
Status rotate_quantised(const ModelFile & model, CacheLayout & layout);

// For what sessions under these options evict, of which nothing is there yet. REQUIRES: options.cold.
// Errors: kUnsupported: the type's block does not divide the head size; those above.
Result<ColdStore> empty_cold_store(const ModelFile & model, const SessionOptions & options);

}  // namespace pith
