// log_pieces_test.cpp - pieces of log lines become lines, with the level their first piece had.
#include "core/log_pieces.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace pith::log_pieces_test {
namespace {

using Lines = std::vector<std::pair<LogLevel, std::string>>;

TEST(LogPieces, JoinsPiecesUntilTheNewlineAtTheLevelOfTheFirst) {
    LogPieces pieces;
    Lines lines;
    const auto keep = [&lines](LogLevel level, const std::string & line) { lines.emplace_back(level, line); };
    pieces.add(4, "no such ", keep);
    EXPECT_TRUE(lines.empty());
    pieces.add(5, "file\nnext", keep);
    pieces.add(5, "\n", keep);
    pieces.add(3, "\n\nwarned\n", keep);
    EXPECT_EQ(lines, (Lines{{LogLevel::kError, "no such file"}, {LogLevel::kError, "next"}, {LogLevel::kWarning, "warned"}}));
}

}  // namespace
}  // namespace pith::log_pieces_test
