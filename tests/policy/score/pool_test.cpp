// pool_test.cpp - pooling along a lane.
#include "policy/score/pool.h"

#include <gtest/gtest.h>

#include <vector>

namespace pith::pool_test {
namespace {

using Row = std::vector<float>;

Row max_of(const Row & in, int kernel) {
    Row out(in.size());
    pool_max(in, {.before = kernel / 2, .after = kernel / 2}, out);
    return out;
}

Row avg_of(const Row & in, int kernel, PoolEdges edges) {
    Row out(in.size());
    pool_avg(in, {.before = kernel / 2, .after = kernel / 2}, edges, out);
    return out;
}

TEST(Pool, MaxSpreadsAPeakAndIgnoresWhatIsOutside) {
    EXPECT_EQ(max_of({0, 0, 5, 0, 0, 0}, 3), (Row{0, 5, 5, 5, 0, 0}));
    EXPECT_EQ(max_of({-3, -2, -1}, 7), (Row{-1, -1, -1}));
    EXPECT_EQ(max_of({4}, 7), (Row{4}));
    EXPECT_EQ(max_of({}, 7), (Row{}));
    EXPECT_EQ(max_of({1, 2, 3}, 1), (Row{1, 2, 3}));
}

TEST(Pool, AnAverageDividesByTheEntriesUnderTheKernel) {
    EXPECT_EQ(avg_of({3, 3, 3, 3}, 5, PoolEdges::kCount), (Row{3, 3, 3, 3}));
    EXPECT_EQ(avg_of({2, 4, 6}, 3, PoolEdges::kCount), (Row{3, 4, 5}));
    EXPECT_EQ(avg_of({2}, 5, PoolEdges::kCount), (Row{2}));
    EXPECT_EQ(avg_of({}, 5, PoolEdges::kCount), (Row{}));
}

TEST(Pool, ZeroEdgesLowerTheEndsAsPublicCodeDoes) {
    EXPECT_EQ(avg_of({3, 3, 3, 3}, 3, PoolEdges::kZero), (Row{2, 3, 3, 2}));
    EXPECT_EQ(avg_of({5}, 5, PoolEdges::kZero), (Row{1}));
}

TEST(Pool, AKernelOverWhatIsBeforeLiftsWhatFollowsAPeak) {
    const Row in = {0, 6, 0, 0, 0};
    Row out(in.size());
    pool_max(in, {.before = 2}, out);
    EXPECT_EQ(out, (Row{0, 6, 6, 6, 0}));
    pool_avg(in, {.before = 2}, PoolEdges::kCount, out);
    EXPECT_EQ(out, (Row{0, 3, 2, 2, 0}));
    pool_avg(in, {.before = 2}, PoolEdges::kZero, out);
    EXPECT_EQ(out, (Row{0, 2, 2, 2, 0}));
}

}  // namespace
}  // namespace pith::pool_test
