// log_once.cpp - which lines have been said. Stage: core.
#include "core/log_once.h"

#include <algorithm>
#include <mutex>
#include <set>

namespace pith {

void log_once(LogLevel level, const std::string & whole) {
    constexpr size_t kMostLines = 1000;
    constexpr size_t kMostBytes = 300;  // of a line: callers may write into it what a request says
    size_t end = std::min(whole.size(), kMostBytes);
    while (end > 0 && end < whole.size() && (static_cast<unsigned char>(whole[end]) & 0xC0U) == 0x80U) { --end; }
    const std::string line = whole.substr(0, end) + (end < whole.size() ? "…" : "");
    static std::mutex mutex;
    static std::set<std::string> said;
    {
        const std::lock_guard lock(mutex);
        if (said.size() == kMostLines || !said.insert(line).second) { return; }
    }
    log_line(level, line);
}

}  // namespace pith
