// cpu_threads.h - runs a function on ggml's threads. Stage: attention.
//
// Errors: kOutOfMemory, kInternal (ggml's status).   Cost: a graph of one operation.   Threads: one run at a time.
#pragma once

#include <atomic>
#include <functional>
#include <new>

#include "attention/graph_runner.h"

namespace pith {

// Calls part(ith) on every thread of the runner's back end, each ith in [0, kMaxAttentionThreads) once.
// REQUIRES: on the CPU; `build` is what runner.begin() gave for at least 8 operations, with nothing in it.
Status run_on_threads(GraphRunner & runner, GraphBuild & build, const std::function<void(int ith)> & part);

// Calls run(task) for every task in [0, n_tasks), each on one thread. One that finds no memory ends as kOutOfMemory: an
// exception must not leave a thread of ggml's. REQUIRES: on the CPU.
template <class Run>
Status run_tasks(GraphRunner & runner, int n_tasks, Run run) {
    PITH_ASSIGN_OR_RETURN(GraphBuild * build, runner.begin(8));
    std::atomic<int> next{0};
    std::atomic<bool> has_memory{true};
    PITH_RETURN_IF_ERROR(run_on_threads(runner, *build, [&](int) {
        try {
            for (int task = next++; task < n_tasks; task = next++) { run(task); }
        } catch (const std::bad_alloc &) { has_memory = false; }
    }));
    if (!has_memory) { return {ErrorCode::kOutOfMemory, "no memory for what the lanes of a layer are asked"}; }
    return {};
}

}  // namespace pith
