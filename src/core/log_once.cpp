// log_once.cpp - which lines have been said. Stage: core.
#include "core/log_once.h"

#include <mutex>
#include <set>

namespace pith {

void log_once(LogLevel level, const std::string & line) noexcept {
    constexpr size_t kMostLines = 1000;
    static std::mutex mutex;
    static std::set<std::string> said;
    try {
        const std::lock_guard lock(mutex);
        if (said.contains(line)) { return; }
        if (said.size() < kMostLines) { said.insert(line); }
    } catch (...) {
        // Without memory to remember it, it is said again.
    }
    log_line(level, line);
}

}  // namespace pith
