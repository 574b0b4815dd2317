// tasks.h - pieces of work that do not depend on each other, and who does them. Stage: all (what a stage may run side by side).
// Pure C++: no ggml, no I/O.
#pragma once

#include <functional>

#include "pith/status.h"

namespace pith {

// Calls task(i) once for every i in [0, n_tasks) and returns when all are done; in any order, on any number of threads.
// Errors: kOutOfMemory when a task found no memory; kCancelled; the threads' own. Some tasks may then not have run.
using RunTasks = std::function<Status(int n_tasks, const std::function<void(int i)> & task)>;

// All of them on the calling thread.
inline Status run_in_turn(int n_tasks, const std::function<void(int i)> & task) {
    for (int i = 0; i < n_tasks; ++i) { task(i); }
    return {};
}

}  // namespace pith
