// cpu_threads.h - runs a function on ggml's threads. Stage: device.
//
// Errors: kOutOfMemory (also where a part found no memory), kCancelled (as the runner's runs), kInternal (ggml's status; a part
// threw anything else): an exception must not leave a thread of ggml's.   Cost: a graph of one operation.   Threads: one run at
// a time.
#pragma once

#include <functional>

#include "core/tasks.h"
#include "device/graph_runner.h"

namespace pith {

// Calls part(ith) on every thread of the runner's back end, each ith in [0, n_threads) once.
// REQUIRES: on the CPU; `build` is what runner.begin() gave for at least 8 operations, with nothing in it.
Status run_on_threads(GraphRunner & runner, GraphBuild & build, const std::function<void(int ith)> & part);

// Calls task(i) for every i in [0, n_tasks), each on one thread. After an error some may not have run.
// REQUIRES: on the CPU.
Status run_tasks(GraphRunner & runner, int n_tasks, const std::function<void(int i)> & task);

// The same as a function, for code that knows no back ends; in turn on the calling thread where the runner has no operations of
// Pith's own. The runner must outlive it.
RunTasks tasks_on(GraphRunner & runner);

}  // namespace pith
