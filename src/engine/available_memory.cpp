// available_memory.cpp - /proc/meminfo, /sys/fs/cgroup and the process's own limit.
#include "engine/available_memory.h"

#include <sys/resource.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <string>

namespace pith {
namespace {

constexpr size_t kUnlimited = std::numeric_limits<size_t>::max();

// The number after `key` in lines of "key: number kB".
std::optional<size_t> kilobytes(const char * path, const std::string & key) {
    std::ifstream file(path);
    std::string word;
    while (file >> word) {
        size_t value = 0;
        if (word == key && file >> value) { return value * 1024; }
        file.ignore(1 << 16, '\n');
    }
    return std::nullopt;
}

// A file that holds one number; "max" and what cannot be read say nothing.
std::optional<size_t> number_in(const std::string & path) {
    std::ifstream file(path);
    size_t value = 0;
    return file >> value ? std::optional(value) : std::nullopt;
}

// The number behind `key` in lines of "key number".
size_t number_of(const std::string & path, const std::string & key) {
    std::ifstream file(path);
    std::string word;
    size_t value = 0;
    while (file >> word >> value) {
        if (word == key) { return value; }
    }
    return 0;
}

size_t left_of(const std::string & folder, const char * limit_name, const char * usage_name, const char * cache_key) {
    const auto limit = number_in(folder + limit_name);
    const auto usage = number_in(folder + usage_name);
    if (!limit || !usage) { return kUnlimited; }
    const size_t used = *usage - std::min(*usage, number_of(folder + "/memory.stat", cache_key));
    return *limit > used ? *limit - used : 0;
}

// The least that this process's control groups leave, from its own up to the root.
size_t left_by_cgroups() {
    size_t least = kUnlimited;
    std::ifstream groups("/proc/self/cgroup");  // "0::/a/b" (version 2), "7:memory:/a/b" (version 1)
    for (std::string line; std::getline(groups, line);) {
        const size_t first = line.find(':');
        const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
        if (second == std::string::npos) { continue; }
        const std::string controllers = line.substr(first + 1, second - first - 1);
        const bool version2 = controllers.empty();
        if (!version2 && controllers.find("memory") == std::string::npos) { continue; }
        const std::string root = version2 ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory";
        std::string group = line.substr(second + 1);
        for (;;) {
            const std::string folder = root + (group == "/" ? "" : group);
            least =
                std::min(least, version2 ? left_of(folder, "/memory.max", "/memory.current", "file")
                                         : left_of(folder, "/memory.limit_in_bytes", "/memory.usage_in_bytes", "total_cache"));
            const size_t slash = group.rfind('/');
            if (group.size() <= 1 || slash == std::string::npos) { break; }
            group = slash == 0 ? "/" : group.substr(0, slash);
        }
    }
    return least;
}

size_t left_of_address_space() {
    rlimit limit{};
    if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) { return kUnlimited; }
    const size_t used = kilobytes("/proc/self/status", "VmSize:").value_or(0);
    return limit.rlim_cur > used ? static_cast<size_t>(limit.rlim_cur) - used : 0;
}

}  // namespace

size_t available_memory(size_t mapped_bytes) {
    size_t pages = std::min(kilobytes("/proc/meminfo", "MemAvailable:").value_or(kUnlimited), left_by_cgroups());
    if (pages != kUnlimited) { pages -= std::min(pages, mapped_bytes); }
    const size_t least = std::min(pages, left_of_address_space());
    return least == kUnlimited ? 0 : std::max<size_t>(least, 1);
}

}  // namespace pith
