// cpu_lane_attention.h - the CPU's attention kernel, and writing what it reads, as ggml operations on ggml's threads. Stage:
// attention.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "attention/cpu/cpu_attention.h"
#include "attention/cpu/lane_batch.h"
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

// New keys and values on their way into the lanes: an attention that reads them comes after both.
struct WrittenRows {
    ggml_tensor * k = nullptr;
    ggml_tensor * v = nullptr;
};

// Copies the rows of k [d, K, n] and v [dv, K, n], in the cache's types, into the newest cells of each part's lanes.
// REQUIRES: a CPU back end; all parts' caches have one layout. Cost: one pass over them, whatever the number of parts.
WrittenRows build_cpu_write(GraphBuild & build, const LaneBatchPtr & batch, int layer, ggml_tensor * k, ggml_tensor * v);

// Attention of the rows' queries over their parts' lanes, after `written`.   q f32 [d, H, n], rows contiguous  →  [dv·H, n].
// Parts of one token each are one operation; a prompt's piece is one by itself.
// REQUIRES: can_attend_on_cpu(); a CPU back end; the lanes keep their lengths until the graph has run.
ggml_tensor * build_cpu_attention(GraphBuild & build, const LaneBatchPtr & batch, int layer, ggml_tensor * q,
                                  const WrittenRows & written);

}  // namespace pith
