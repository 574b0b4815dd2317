// on_threads.h - parts of a piece of work, each on a thread of its own. Stage: all.
#pragma once

#include <functional>

#include "pith/status.h"

namespace pith {

// Calls part(i) once for every i in [0, n) and returns when all are done: part 0 on the calling thread, the others beside it,
// or after it, where the system has no more threads to give. The first error of the lowest part; what a part throws is one.
// REQUIRES: no part waits for another.   Throws std::bad_alloc, before any part has begun.
Status on_threads(int n, const std::function<Status(int i)> & part);

}  // namespace pith
