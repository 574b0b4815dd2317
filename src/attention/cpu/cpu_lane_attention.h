// cpu_lane_attention.h - the CPU's attention kernel as one ggml operation on ggml's threads. Stage: attention.
#pragma once

#include <functional>
#include <optional>

#include "attention/cpu/cpu_attention.h"
#include "cache/ragged_cache.h"
#include "device/graph_runner.h"

namespace pith {

// Whether the kernel takes the cache's types and head sizes and is the faster way here.
bool can_attend_on_cpu(const CacheLayout & layout);

std::optional<KvFormat> format_of(ggml_type type);  // none: not one of the kernel's

// The lanes of (seq, layer) and their keys: no values, output, queries or columns.
void fill_key_lanes(const RaggedCache & cache, int seq, int layer, AttentionTask & task);

// What the n newest entries' queries q [d, H, n] ask of the lanes of (seq, layer), into out [dv·H, n]; both have memory.
// hidden: may be nullptr.
void fill_attention_task(const RaggedCache & cache, int seq, int layer, const ggml_tensor * q, const ggml_tensor * out,
                         const HiddenKeys * hidden, AttentionTask & task);

// Where the queries' probabilities are summed: [lane length] per query head, added to. Asked for before every run.
using ColumnSums = std::function<float *(int head)>;

// Attention of the n newest entries' queries over their lanes, after `written` (K's and V's new rows).
// q f32 [d, H, n], rows contiguous  →  [dv·H, n].   hidden: may be nullptr; lives until the last run.
// REQUIRES: can_attend_on_cpu(); a CPU back end; the lanes keep their lengths until the graph has run.
ggml_tensor * build_cpu_attention(GraphBuild & build, const RaggedCache & cache, int seq, int layer, ggml_tensor * q,
                                  ggml_tensor * written_k, ggml_tensor * written_v, ColumnSums sums = {},
                                  const HiddenKeys * hidden = nullptr);

}  // namespace pith
