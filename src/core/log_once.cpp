// log_once.cpp - which lines have been said. Stage: core.
#include "core/log_once.h"

#include <algorithm>
#include <mutex>
#include <set>

namespace pith {

void log_once(LogLevel level, const std::string & whole) noexcept {
    constexpr size_t kMostLines = 1000;
    constexpr size_t kMostBytes = 300;  // of a line: callers may write into it what a request says
    static std::mutex mutex;
    static std::set<std::string> said;
    try {
        size_t end = std::min(whole.size(), kMostBytes);
        while (end > 0 && end < whole.size() && (static_cast<unsigned char>(whole[end]) & 0xC0U) == 0x80U) { --end; }
        const std::string line = whole.substr(0, end) + (end < whole.size() ? "…" : "");
        {
            const std::lock_guard lock(mutex);
            if (said.size() == kMostLines || !said.insert(line).second) { return; }
        }
        log_line(level, line);
    } catch (...) {
        // Without memory for it the line is not said.
    }
}

}  // namespace pith
