// reservation.h - the bytes that a sequence's lanes may come to take before it has answered. Stage: schedule.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "cache/ragged_cache.h"
#include "pith/position_span.h"
#include "plan/run_plan.h"
#include "policy/policy.h"

namespace pith {

// Entries of all lanes together, at most.
int64_t most_entries(const RunPlan & plan, const Policy & policy, const CacheShape & shape, int64_t n_prompt, int64_t n_answer);

// What a sequence holds that has read its first prompt, or a part of it in chunks.
struct HeldEntries {
    int64_t n_tokens = 0;  // read
    int64_t since_eviction = 0;
    int64_t n_entries = 0;  // of all lanes together
    int64_t n_lanes = 0;
    bool keeps_less = false;  // its policy may keep less than the budget (Policy::keeps_less())
};
// Whether an eviction may come before so many tokens more have been fed.
bool may_evict(const RunPlan & plan, const HeldEntries & held, int64_t n_added);

// Tokens that the text begins with and no eviction takes.
int64_t n_protected_in_front(const Policy & policy, std::span<const PositionSpan> pinned);
// Of the first n tokens, where they are the first entries of their lanes: pages that hold nothing else. Whoever evicts behind
// them does not write there.
size_t bytes_in_front(const RaggedCache & cache, int64_t n);

// Tokens that come before entries leave windows again.
int64_t longest_piece(const RunPlan & plan);

// In pages: every lane may leave a part of two of them unused, one of K and one of V. On devices in whole steps.
size_t most_bytes(const CacheLayout & layout, int64_t n_entries);

}  // namespace pith
