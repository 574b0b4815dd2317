// bucket_attention.h - attention over lanes that lie in buckets, in a device's memory: a bucket is one flash attention, its
// lanes in dimension 3, each with a mask of its own. Stage: attention.
//
// Built-in operations of ggml alone. A graph around it may run again as long as the cache's storage_id() stays: lanes that grow
// inside their room change masks, which are filled before every run.
#pragma once

#include "cache/ragged_cache.h"
#include "device/graph_runner.h"

namespace pith {

// q [d, H, n] of the newest n entries of a layer's lanes  →  [dv, H, n]. REQUIRES: cache.in_buckets(layer); the new entries
// have been appended, and are written before it in the graph. Cost: O(H · n · room · d); masks of n · room numbers for each
// lane, or for all of a bucket that are as long.
ggml_tensor * attend_in_buckets(GraphBuild & build, const RaggedCache & cache, int layer, ggml_tensor * q);

// Operations for it, at most.
size_t bucket_attention_nodes(int n_kv_heads);

// Why a layer's lanes cannot lie on this device; ok: they can. Errors: kUnsupported, without the layer's or device's name.
Status can_attend_in_buckets(const LaneDevice & device, const CacheLayout & layout, int layer);

}  // namespace pith
