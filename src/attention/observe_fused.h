// observe_fused.h - observe_queries() in one pass over the keys, for ggml's CPU back end. Stage: attention → evidence.
//
// Custom operations on ggml's threads, a few KV heads at a time: keys are decoded and packed once for all query heads of the
// group; then (KV head, slice of the queries) are dealt out, each keeps a block of rows in the nearer caches, turns it into
// probabilities and sums it at once; then the slices' sums are added in order. No n × n buffer, and the result does not depend
// on the number of threads.   Arithmetic: f32, queries and keys of every type; sums over a row in f64.
#pragma once

#include <cstdint>
#include <span>

#include "attention/graph_runner.h"
#include "attention/observe.h"
#include "cache/ragged_cache.h"

namespace pith {

struct FusedLimits {
    int64_t packed_floats = int64_t{1} << 21U;  // packed keys at a time: 8 MiB, or one lane where that is more
    int64_t row_floats = int64_t{1} << 20U;     // scores of a thread at a time: 4 MiB, or one group of rows where that is more
    int max_slices = 8;                         // per KV head
};

// As observe_queries(), sums and profiles not yet divided. `out` has its room.
Status observe_fused(GraphRunner & runner, const RaggedCache & cache, int seq, int layer, const float * queries,
                     std::span<const int32_t> query_positions, const ObserveWants & wants, Observed & out,
                     const FusedLimits & limits = {});

}  // namespace pith
