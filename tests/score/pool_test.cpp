// pool_test.cpp - pooling along a lane.
#include "policy/score/pool.h"

#include <gtest/gtest.h>

#include <vector>

namespace pith {
namespace {

using Row = std::vector<float>;

Row max_of(const Row & in, int kernel) {
    Row out(in.size());
    pool_max(in, kernel, out);
    return out;
}

Row avg_of(const Row & in, int kernel, PoolEdges edges) {
    Row out(in.size());
    pool_avg(in, kernel, edges, out);
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

}  // namespace
}  // namespace pith
