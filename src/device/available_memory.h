// available_memory.h - how much more this process may take before something stops it. Stage: device.
//
// Pages are what the kernel kills for: the system's (MemAvailable), and those that the control groups leave, this process's own
// group and all above it. Addresses are what it merely refuses: RLIMIT_AS (ulimit -v) and RLIMIT_DATA (ulimit -d), which count
// what is reserved, used or not.
#pragma once

#include <cstddef>
#include <string>

namespace pith {

// The least of the pages and the addresses that are left. 0 where nothing says (only Linux does here).
// Of a control group: memory.max or memory.high less memory.current (version 2), or the limit less the usage (version 1); the
// group's cached files can be given back and count as left, files in memory (tmpfs) cannot and do not.
// mapped_bytes: of mapped files that the work reads again and again: they want memory, too, and count as left before that.
// root: in front of /proc and /sys, for tests.   Cost: a few small reads.
size_t available_memory(size_t mapped_bytes = 0, const std::string & root = "");

// Whether so much can be had in one piece: for what ends the process where it finds no memory, and must not begin then.
bool has_room(size_t n_bytes);

// The addresses alone. 0: they are not limited.
size_t available_addresses(const std::string & root = "");

}  // namespace pith
