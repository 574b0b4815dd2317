// bucket_attention.h - attention over lanes that lie in buckets, in a device's memory, of one sequence or of several: lanes
// with the same room are one flash attention. Stage: attention.
//
// Lanes of a bucket that are all as long share a mask, and are KV heads of one sequence, as back ends have them fastest. Ragged
// lanes, and sequences, lie in dimension 3, each with a mask of its own, where they follow each other at the same distance in
// the same tensor; there a mask is not shared, although ggml's rules allow it: the CUDA back end looks for each lane's last
// visible key in a mask of the lane's own (ggml 0.21, flash_attn_mask_to_KV_max). Several queries, of a prompt, see lanes up to
// the next kStep cells behind their ends; the one of a token sees all of the room. Sequences whose lanes share a start, and so
// a room (cache/bucket_lanes.h), are rows of queries of one attention, each under a row of the mask that shows it the start and
// its own end. Built-in operations of ggml alone. A graph around the latter may run again as long as each cache's storage_id()
// and n_moves() stay, and shares_mask() of every bucket: lanes that grow inside their room change masks, which are filled
// before every run.
#pragma once

#include <span>

#include "attention/cpu/lane_batch.h"
#include "cache/ragged_cache.h"
#include "device/graph_runner.h"

namespace pith {

// q [d, H, P·n], of each of P parts the newest n entries of a layer's lanes, one part behind the other  →  [dv, H, P·n].
// REQUIRES: in_buckets(layer) of each part's cache; the new entries have been appended, and are written before it in the graph.
// Cost, r being the cells that are seen: O(H · P · n · r · d); on the device masks of n · r numbers for each lane, or for all
// of a bucket that share one, made of the n + r numbers that are sent.
ggml_tensor * attend_in_buckets(GraphBuild & build, std::span<const LanePart> parts, int layer, ggml_tensor * q);

// Masks [seen, n, 1, lanes] of lines [seen + n - 1, lanes]: row i of one begins at element i of its line.
ggml_tensor * rows_of_lines(ggml_context * ctx, ggml_tensor * lines, int64_t seen, int64_t n);

// Of a line of a lane's room in which all is hidden, shows the first n entries of the lane.
void show_entries(const LanePieces & pieces, int64_t n, ggml_fp16_t * row);

// Whether a bucket's lanes are as long as each other, and lie alike.
bool shares_mask(const RaggedCache & cache, int layer, const LaneBucket & bucket);

// Operations for it, at most.
size_t bucket_attention_nodes(int n_kv_heads);

// Why a layer's lanes cannot lie on this device; ok: they can. Errors: kUnsupported, without the layer's or device's name.
Status can_attend_in_buckets(const LaneDevice & device, const CacheLayout & layout, int layer);

}  // namespace pith
