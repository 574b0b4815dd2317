// lane_attention.h - attention of new tokens over the ragged cache, as ggml operations (the portable path). Stage: attention.
//
// Writes the new K and V into their cells, then attends: neighbouring lanes of equal length share one ggml_flash_attn_ext,
// the others get their own. Quantised and bf16 K/V are expanded to f32 scratch when several queries attend (ggml's tiled path
// takes f16 and f32 only). Lanes in buckets: bucket_attention.h.
#pragma once

#include <string>
#include <vector>

#include "attention/cpu/cpu_lane_attention.h"
#include "attention/cpu/lane_batch.h"
#include "cache/ragged_cache.h"
#include "device/graph_runner.h"

namespace pith {

// Lanes [begin, end) of one layer, all with `length` entries from entry `first` on.
struct LaneRun {
    int begin = 0;
    int end = 0;
    int length = 0;
    int first = 0;
};

// Neighbouring KV heads of (seq, layer) whose lanes have the same length.
std::vector<LaneRun> equal_length_runs(const RaggedCache & cache, int seq, int layer);

// View of K [head_dim, length, lanes] or V of a run of lanes.
// REQUIRES: several lanes only of a layer in pages.
ggml_tensor * view_lanes(ggml_context * ctx, const RaggedCache & cache, ggml_tensor * flat, int seq, int layer,
                         const LaneRun & run);

// Tokens [first, first + n) of x [d, heads, tokens]; x itself where these are all.
ggml_tensor * view_tokens(ggml_context * ctx, ggml_tensor * x, int first, int n);

// q [d, H, n], k [d, K, n], v [dv, K, n]  →  [dv·H, n]. A part's `sums` are served where sums_columns() says so. k and v null:
// the layer reads another's lanes (CacheLayout::source()), and nobody sums. REQUIRES: cache.append() has already added each
// part's new entries to every lane of its sequence; they are the last ones. Cost: O(H · n · lane length · d).
ggml_tensor * build_lane_attention(GraphBuild & build, const LaneBatchPtr & batch, int layer, ggml_tensor * q, ggml_tensor * k,
                                   ggml_tensor * v);
// Whose kernels attend, for people: "pith AVX2", "ggml", "ggml on devices".
std::string attention_kernels(bool custom_operations, const CacheLayout & layout);
// Whether a layer's attention itself adds up what its queries pay to each entry: Pith's own does.
bool sums_columns(bool custom_operations, const RaggedCache & cache, int layer);

}  // namespace pith
