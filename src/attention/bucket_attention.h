// bucket_attention.h - attention over lanes that lie in buckets, in a device's memory: a bucket is one flash attention.
// Stage: attention.
//
// Lanes that are all as long share a mask, and are KV heads of one sequence, as back ends have them fastest. Ragged lanes lie
// in dimension 3, each with a mask of its own; there a mask is not shared, although ggml's rules allow it: the CUDA back end
// looks for each lane's last visible key in a mask of the lane's own (ggml 0.21, flash_attn_mask_to_KV_max).
// Several queries, of a prompt, see lanes up to the next kStep cells behind their ends; the one of a token sees all of the
// room. Built-in operations of ggml alone. A graph around the latter may run again as long as the cache's storage_id() stays,
// and shares_mask() of every bucket: lanes that grow inside their room change masks, which are filled before every run.
#pragma once

#include "cache/ragged_cache.h"
#include "device/graph_runner.h"

namespace pith {

// q [d, H, n] of the newest n entries of a layer's lanes  →  [dv, H, n]. REQUIRES: cache.in_buckets(layer); the new entries
// have been appended, and are written before it in the graph. Cost, r being the cells that are seen: O(H · n · r · d); on the
// device masks of n · r numbers for each lane, or for all of a bucket that share one, made of the n + r numbers that are sent.
ggml_tensor * attend_in_buckets(GraphBuild & build, const RaggedCache & cache, int layer, ggml_tensor * q);

// Whether a bucket's lanes are as long as each other.
bool shares_mask(const RaggedCache & cache, int layer, const LaneBucket & bucket);

// Operations for it, at most.
size_t bucket_attention_nodes(int n_kv_heads);

// Why a layer's lanes cannot lie on this device; ok: they can. Errors: kUnsupported, without the layer's or device's name.
Status can_attend_in_buckets(const LaneDevice & device, const CacheLayout & layout, int layer);

}  // namespace pith
