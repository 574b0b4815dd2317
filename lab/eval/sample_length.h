// sample_length.h - whether a task's samples are made to a length. Stage: eval.
// Threads: const-safe.
#pragma once

#include <algorithm>

#include "benchmarks/benchmark.h"

namespace pith {

// Of a family whose samples are made here, as long as one likes; the others are as long as their data.
inline bool makes_its_length(const benchmarks::TaskRules & rules) {
    return rules.file.empty() || std::ranges::any_of(benchmarks::all_tasks(), [&](const auto & task) {
               return task->rules().family == rules.family && task->rules().file.empty();
           });
}

}  // namespace pith
