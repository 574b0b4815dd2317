// available_memory.cpp - /proc/meminfo, /sys/fs/cgroup and the process's own limits.
#include "device/available_memory.h"

#include <sys/resource.h>

#include <algorithm>
#include <fstream>
#include <initializer_list>
#include <limits>
#include <new>
#include <optional>

#include "device/control_groups.h"

namespace pith {
namespace {

constexpr size_t kUnlimited = std::numeric_limits<size_t>::max();

// The number after `key` in lines of "key: number kB".
std::optional<size_t> kilobytes(const std::string & path, const std::string & key) {
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
std::optional<size_t> number_of(const std::string & path, const std::string & key) {
    std::ifstream file(path);
    std::string word;
    size_t value = 0;
    while (file >> word >> value) {
        if (word == key) { return value; }
    }
    return std::nullopt;
}

size_t left(std::optional<size_t> limit, size_t used) {
    return !limit ? kUnlimited : *limit - std::min(*limit, used);
}

// Limits in bytes, what is used, and the lines of memory.stat whose pages the kernel takes back before it kills.
struct GroupFiles {
    std::initializer_list<const char *> limits;
    const char * usage;
    std::initializer_list<const char *> reclaimable;
};
const GroupFiles kVersion2 = {{"/memory.max", "/memory.high"}, "/memory.current", {"inactive_file", "active_file"}};
const GroupFiles kVersion1 = {
    {"/memory.limit_in_bytes"}, "/memory.usage_in_bytes", {"total_inactive_file", "total_active_file"}};

size_t left_in_group(const std::string & folder, const GroupFiles & files) {
    std::optional<size_t> limit;
    for (const char * name : files.limits) {
        const auto one = number_in(folder + name);
        if (one) { limit = std::min(limit.value_or(kUnlimited), *one); }
    }
    // Of groups above that cannot be seen from here (version 1).
    const auto above = number_of(folder + "/memory.stat", "hierarchical_memory_limit");
    if (above) { limit = std::min(limit.value_or(kUnlimited), *above); }
    if (!limit) { return kUnlimited; }
    size_t used = number_in(folder + files.usage).value_or(0);
    for (const char * key : files.reclaimable) { used -= std::min(used, number_of(folder + "/memory.stat", key).value_or(0)); }
    return left(limit, used);
}

size_t left_by_groups(const std::string & root) {
    size_t least = kUnlimited;
    for_each_group(root, "memory", [&](const std::string & folder, GroupVersion version) {
        least = std::min(least, left_in_group(folder, version == GroupVersion::kTwo ? kVersion2 : kVersion1));
    });
    return least;
}

size_t left_of_limit(int resource, const std::string & status, const char * used) {
    rlimit limit{};
    if (getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) { return kUnlimited; }
    return left(static_cast<size_t>(limit.rlim_cur), kilobytes(status, used).value_or(0));
}

size_t left_of_addresses(const std::string & root) {
    const std::string status = root + "/proc/self/status";
    return std::min(left_of_limit(RLIMIT_AS, status, "VmSize:"), left_of_limit(RLIMIT_DATA, status, "VmData:"));
}

// Nothing left is not the same as nothing known.
size_t told(size_t bytes) {
    return bytes == kUnlimited ? 0 : std::max<size_t>(bytes, 1);
}

}  // namespace

size_t available_memory(size_t mapped_bytes, const std::string & root) {
    size_t pages = std::min(kilobytes(root + "/proc/meminfo", "MemAvailable:").value_or(kUnlimited), left_by_groups(root));
    if (pages != kUnlimited) { pages -= std::min(pages, mapped_bytes); }
    return told(std::min(pages, left_of_addresses(root)));
}

size_t available_addresses(const std::string & root) {
    return told(left_of_addresses(root));
}

bool has_room(size_t n_bytes) {
    void * room = ::operator new(n_bytes, std::nothrow);  // called as a function: a new-expression may be left out
    ::operator delete(room);
    return room != nullptr;
}

}  // namespace pith
