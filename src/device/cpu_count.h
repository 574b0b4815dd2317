// cpu_count.h - how many threads can run at once here: the default wherever a number of threads is chosen. Stage: device.
#pragma once

#include <string>

namespace pith {

// The CPUs that this process may run on (its affinity: taskset, cpuset groups), or fewer where control groups give it less
// time: cpu.max (version 2) or cpu.cfs_quota_us (version 1) of its own group and of all above it, in whole CPUs, rounded up.
// More threads than that only wait for each other, and all of them while the group's time is used up. At least 1. root: in
// front of /proc and /sys, for tests.   Cost: a few small reads.
int available_cpus(const std::string & root = "");

}  // namespace pith
