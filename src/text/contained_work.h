// contained_work.h - runs what cannot be trusted in a process of its own, within limits. Stage: text.
//
// A fork of this process, which alone the calling thread enters: it may compute and allocate, and must touch neither files nor
// other threads' locks. Whatever it does, endless loops, recursion without end and faults too, this process only sees a text or
// the reason why there is none. Its stdin, stdout and stderr lead nowhere.
// Threads: any number at once. Cost: a fork, some milliseconds where much memory is mapped.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "pith/status.h"

namespace pith {

struct ContainedLimits {
    int cpu_seconds = 2;
    int wall_seconds = 20;
    size_t memory_bytes = size_t{256} << 20U;  // of address space, beyond what is mapped
    size_t output_bytes = size_t{32} << 20U;
};

// work() runs in the other process; its text comes back. Errors: kUnsupported: what it did ("took more than 2 s of processor
// time", "needs more than 256 MiB of memory", the text of an exception …), for a sentence whose subject is the caller's;
// kOutOfMemory, kIo: the process could not be started.
Result<std::string> run_contained(const std::function<std::string()> & work, const ContainedLimits & limits);

}  // namespace pith
