// protected_tokens.h - how many tokens per head no eviction may take: sinks, recent ones, pinned ones. Stage: set-up.
// Pure C++: no ggml, no I/O.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "pith/position_span.h"
#include "policy/policy.h"

namespace pith {

// A prompt and its answer, of which nobody knows how long they become.
inline constexpr int64_t kAnyLength = std::numeric_limits<int32_t>::max();

// Positions below `end` that lie in at least one of the spans.
int64_t n_covered(std::vector<PositionSpan> spans, int64_t end = kAnyLength);

// What `policy` protects of `n_tokens` under a budget of so many tokens per head (its recent tokens may be a share of them).
int64_t n_protected(const Policy & policy, const std::vector<PositionSpan> & pinned, int64_t budget,
                    int64_t n_tokens = kAnyLength);

// The smallest budget that holds what is protected under it. Nothing: none does.
std::optional<int64_t> least_budget(const Policy & policy, const std::vector<PositionSpan> & pinned,
                                    int64_t n_tokens = kAnyLength);

}  // namespace pith
