// reservation.h - the bytes that a sequence's lanes may come to take before it has answered. Stage: schedule.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cache/ragged_cache.h"
#include "policy/policy.h"
#include "policy/schedule/run_plan.h"

namespace pith {

// Entries of all lanes together, at most.
int64_t most_entries(const RunPlan & plan, const Policy & policy, const CacheShape & shape, int64_t n_prompt, int64_t n_answer);

// In pages: every lane may leave a part of two of them unused, one of K and one of V.
size_t most_bytes(const CacheLayout & layout, int64_t n_entries);

}  // namespace pith
