// cpu_count.cpp - affinity, and the time that control groups give.
#include "device/cpu_count.h"

#ifdef __linux__
#include <sched.h>
#endif

#include <algorithm>
#include <cmath>
#include <fstream>
#include <thread>

#include "device/control_groups.h"

namespace pith {
namespace {

int by_affinity() {
    const int all = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
#ifdef __linux__
    // The kernel refuses a set that is smaller than its own.
    constexpr int kMost = 1 << 16;
    for (int n = 1024; n <= kMost; n *= 2) {
        cpu_set_t * set = CPU_ALLOC(static_cast<size_t>(n));
        if (set == nullptr) { return all; }
        const size_t bytes = CPU_ALLOC_SIZE(static_cast<size_t>(n));
        const int count = sched_getaffinity(0, bytes, set) == 0 ? CPU_COUNT_S(bytes, set) : 0;
        CPU_FREE(set);
        if (count > 0) { return count; }
    }
#endif
    return all;
}

// CPUs' worth of time; 0: no limit, or none that can be read.
double quota_of(const std::string & folder, GroupVersion version) {
    double quota = 0;
    double period = 0;
    if (version == GroupVersion::kTwo) {
        std::ifstream(folder + "/cpu.max") >> quota >> period;  // "200000 100000", or "max 100000"
    } else {
        std::ifstream(folder + "/cpu.cfs_quota_us") >> quota;  // -1: no limit
        std::ifstream(folder + "/cpu.cfs_period_us") >> period;
    }
    return quota > 0 && period > 0 ? quota / period : 0;
}

}  // namespace

int available_cpus(const std::string & root) {
    double least = by_affinity();
    for_each_group(root, "cpu", [&](const std::string & folder, GroupVersion version) {
        const double quota = quota_of(folder, version);
        if (quota > 0) { least = std::min(least, std::ceil(quota)); }
    });
    return std::max(1, static_cast<int>(least));
}

}  // namespace pith
