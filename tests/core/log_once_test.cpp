// log_once_test.cpp - lines that the log has once.
#include "core/log_once.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace pith::log_once_test {
namespace {

TEST(LogOnce, SaysALineOnceHoweverOftenThereIsCauseForIt) {
    std::vector<std::string> lines;
    set_log_sink([&](LogLevel, std::string_view line) { lines.emplace_back(line); });
    for (int i = 0; i < 3; ++i) {
        log_once(LogLevel::kWarning, "the first");
        log_once(LogLevel::kWarning, "the second");
    }
    set_log_sink({});
    EXPECT_EQ(lines, (std::vector<std::string>{"the first", "the second"}));
}

}  // namespace
}  // namespace pith::log_once_test
