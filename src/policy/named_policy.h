// named_policy.h - the policy in a choice. Stage: set-up.
// Pure C++: no ggml, no I/O.
#pragma once

#include "pith/policy_choice.h"
#include "pith/status.h"
#include "policy/policy.h"

namespace pith {

// Errors: those of PolicyChoice::check(); kInvalidArgument: `auto`, which is none until it is known what for (auto_policy.h).
Result<Policy> named_policy(const PolicyChoice & choice);

}  // namespace pith
