// child_process_test.cpp - work done in other processes, and medians.
#include "engine/probe/child_process.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <stdexcept>

#include "core/median.h"

namespace pith::child_process_test {
namespace {

TEST(ChildProcess, BringsBackWhatTheChildWrote) {
    const std::string large(300000, 'x');  // more than a pipe holds
    const auto child = run_in_child([&] { return large; });
    ASSERT_TRUE(child.ok());
    EXPECT_EQ(child->exit_code, 0);
    EXPECT_EQ(child->text, large);
    EXPECT_GT(child->rss_peak_bytes, 0U);
}

TEST(ChildProcess, SurvivesAChildThatDies) {
    const auto aborted = run_in_child([]() -> std::string { std::abort(); });
    ASSERT_TRUE(aborted.ok());
    EXPECT_EQ(aborted->exit_code, 128 + 6);
    const auto threw = run_in_child([]() -> std::string { throw std::runtime_error("no"); });
    ASSERT_TRUE(threw.ok());
    EXPECT_NE(threw->exit_code, 0);
}

TEST(ChildProcess, RunsAProgramInAFolder) {
    const auto child = run_program({"pwd"}, "/");
    ASSERT_TRUE(child.ok());
    EXPECT_EQ(child->text, "/\n");
    const auto missing = run_program({"there-is-no-such-program"}, "");
    ASSERT_TRUE(missing.ok());
    EXPECT_EQ(missing->exit_code, 127);
}

TEST(Median, IsTheMiddleOrTheMeanOfTheTwoMiddleOnes) {
    EXPECT_EQ(median({}), 0);
    EXPECT_EQ(median({3}), 3);
    EXPECT_EQ(median({5, 1, 3}), 3);
    EXPECT_EQ(median({4, 1, 2, 8}), 3);
}

}  // namespace
}  // namespace pith::child_process_test
