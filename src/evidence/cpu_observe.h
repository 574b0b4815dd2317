// cpu_observe.h - observe_queries() by the CPU's attention kernel: columns alone, no values. Stage: attention → evidence.
// The sums do not depend on the number of threads.   Arithmetic and memory: cpu_columns.h.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>

#include "attention/cpu/cpu_attention.h"
#include "cache/ragged_cache.h"
#include "device/graph_runner.h"
#include "evidence/observe.h"

namespace pith {

// Whether the kernel takes the keys' type and head size.
bool can_observe_on_cpu(const CacheLayout & layout);

// As observe_queries(), profiles not yet divided. `out` has its room. REQUIRES: can_observe_on_cpu(), a CPU back end.
Status observe_on_cpu(GraphRunner & runner, const RaggedCache & cache, int seq, int layer, const float * queries,
                      std::span<const int32_t> query_positions, const ObserveWants & wants, Observed & out);

// The same on the calling thread alone, for whoever has many lanes to observe side by side: each thread with a space of its
// own. Errors: kOutOfMemory, kCancelled.
struct ObserveSpace {
    AttentionPlan plan;
    AttentionScratch scratch;
};
Status observe_on_this_thread(ObserveSpace & space, const RaggedCache & cache, int seq, int layer, const float * queries,
                              std::span<const int32_t> query_positions, const ObserveWants & wants, Observed & out,
                              const std::atomic<bool> * cancel);

}  // namespace pith
