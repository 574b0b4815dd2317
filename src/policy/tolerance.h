// tolerance.h - "keep as much as it needs": how much a text may lose, in place of how much of it is kept. Stage: set-up.
// Pure C++: no ggml, no I/O.
//
// A tolerance is a share of attention: entries go that no later word would pay so much. It is the tau of the allocator
// `threshold`, and the budget is a ceiling.
#pragma once

#include <string_view>

#include "pith/policy_choice.h"
#include "pith/status.h"

namespace pith {

// What `auto` is under a tolerance: its scores must be shares of attention.
inline constexpr std::string_view kTolerantScorer = "gate";                  // as `pith calibrate importance` foretells them
inline constexpr std::string_view kTolerantRereading = "reread:group=mean";  // as a second reading finds them

// The choice's policy, dividing by this threshold; `auto` is the policy named.
// Errors: kInvalidArgument: the policy has an allocator of its own, or no scores that a threshold can be put to.
Result<PolicyChoice> with_tolerance(const PolicyChoice & choice, double tolerance,
                                    std::string_view policy_of_auto = kTolerantScorer);

}  // namespace pith
