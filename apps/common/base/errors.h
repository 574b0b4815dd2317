// errors.h - how `pith` ends: one line on stderr, and an exit code.
#pragma once

#include <string_view>

#include "pith/status.h"

namespace pith::app {

inline constexpr int kExitOk = 0;
inline constexpr int kExitFailed = 1;         // something went wrong while running
inline constexpr int kExitUsage = 2;          // what was asked makes no sense
inline constexpr int kExitInterrupted = 130;  // Ctrl-C, as shells have it

// Prints "pith: <message>", with flags for items, on one line of stderr; kExitInterrupted for kCancelled, else kExitFailed.
int fail(const Status & status);
// The same for a mistake on the command line: kExitUsage.
int fail_usage(std::string_view message);
int fail_usage(const Status & status);
// Of what may be either: a mistake on the command line where the code is kInvalidArgument.
int fail_or_usage(const Status & status);
void warn(std::string_view message);

}  // namespace pith::app
