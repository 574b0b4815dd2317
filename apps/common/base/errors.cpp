// errors.cpp - prints one line.
#include "common/base/errors.h"

#include <algorithm>
#include <cstdio>
#include <string>

#include "common/base/flag_names.h"
#include "core/text.h"

namespace pith::app {
namespace {

void print_line(std::string line) {
    std::replace(line.begin(), line.end(), '\n', ' ');
    std::fflush(stdout);
    std::fprintf(stderr, "pith: %s\n", without_controls(line).c_str());
}

}  // namespace

int fail(const Status & status) {
    if (status.code() == ErrorCode::kCancelled) {
        print_line("stopped");
        return kExitInterrupted;
    }
    print_line(message_of(status));
    return kExitFailed;
}

int fail_usage(std::string_view message) {
    print_line(std::string(message));
    return kExitUsage;
}

int fail_usage(const Status & status) {
    return fail_usage(message_of(status));
}

int fail_or_usage(const Status & status) {
    return status.code() == ErrorCode::kInvalidArgument ? fail_usage(status) : fail(status);
}

void warn(std::string_view message) {
    print_line("warning: " + std::string(message));
}

}  // namespace pith::app
