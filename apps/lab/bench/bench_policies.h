// bench_policies.h - `pith bench --policies`: what each policy adds to a one-shot prefill.
#pragma once

#include <string>

#include "common/flags/engine_flags.h"

namespace pith::app {

struct BenchPoliciesFlags {
    std::string policies;  // a list, or `all`
    int n_prompt = 8192;
    int n_repetitions = 3;
    bool json = false;
};

// Returns the exit code.
int bench_policies(const ModelFlags & model, SessionFlags session, const BenchPoliciesFlags & flags);

}  // namespace pith::app
