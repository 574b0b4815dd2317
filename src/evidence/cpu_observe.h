// cpu_observe.h - observe_queries() by the CPU's attention kernel: columns alone, no values. Stage: attention → evidence.
// The sums do not depend on the number of threads.   Arithmetic and memory: cpu_columns.h.
#pragma once

#include <cstdint>
#include <span>

#include "cache/ragged_cache.h"
#include "device/graph_runner.h"
#include "evidence/observe.h"

namespace pith {

// Whether the kernel takes the keys' type and head size.
bool can_observe_on_cpu(const CacheLayout & layout);

// As observe_queries(), profiles not yet divided. `out` has its room. REQUIRES: can_observe_on_cpu(), a CPU back end.
Status observe_on_cpu(GraphRunner & runner, const RaggedCache & cache, int seq, int layer, const float * queries,
                      std::span<const int32_t> query_positions, const ObserveWants & wants, Observed & out);

}  // namespace pith
