// available_memory.h - how much more this process may take before something stops it. Stage: engine.
#pragma once

#include <cstddef>

namespace pith {

// The least of: what the system says is available (MemAvailable), what the control group leaves (memory.max less
// memory.current, version 2, or limit less usage, version 1, of this process's group and those above it; the group's cached
// files can be given back and count as left), and what the address space limit leaves (RLIMIT_AS, ulimit -v). 0 where nothing
// says (only Linux does here). mapped_bytes: of mapped files that the work reads again and again: they want memory, too, and
// the first two count them as left. Cost: a few small reads of /proc and /sys/fs/cgroup.
size_t available_memory(size_t mapped_bytes = 0);

}  // namespace pith
