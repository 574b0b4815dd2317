// client_headers.cpp - the headers that are known.
#include "serve/shapes/client_headers.h"

#include <algorithm>
#include <string_view>

#include "core/log_once.h"

namespace pith::serve {
namespace {

// Claude Code's, since 2.1.36: its version, and digits that change with every request.
constexpr std::string_view kKnown[] = {"x-anthropic-billing-header:"};

}  // namespace

void leave_out_client_headers(std::string & system) {
    const auto begins_with_one = [&system] {
        return std::ranges::any_of(kKnown, [&](std::string_view name) { return system.starts_with(name); });
    };
    while (begins_with_one()) {
        log_once(LogLevel::kWarning,
                 "a line '" + system.substr(0, system.find(':')) +
                     "' in front of a system prompt is left out: it changes with every request (said once)");
        const size_t end = system.find('\n');
        system.erase(0, end == std::string::npos ? system.size() : end + 1);
    }
}

}  // namespace pith::serve
