// top_test.cpp - the best entries of a lane.
#include "policy/lane/top.h"

#include <gtest/gtest.h>

namespace pith::top_test {
namespace {

using Indices = std::vector<int32_t>;

Indices top(const std::vector<float> & scores, const std::vector<IndexRange> & protected_ranges, int n,
            bool with_protected = true) {
    TopSelector selector;
    Indices out;
    with_protected ? selector.with_protected(scores, protected_ranges, n, out)
                   : selector.candidates(scores, protected_ranges, n, out);
    return out;
}

TEST(Top, TakesTheHighestAscending) {
    EXPECT_EQ(top({1, 5, 3, 4}, {}, 2), (Indices{1, 3}));
    EXPECT_EQ(top({1, 5, 3, 4}, {}, 0), (Indices{}));
    EXPECT_EQ(top({1, 5}, {}, 9), (Indices{0, 1}));
    EXPECT_EQ(top({}, {}, 3), (Indices{}));
}

TEST(Top, OfEqualScoresTheNewerStays) {
    EXPECT_EQ(top({2, 2, 2, 2}, {}, 3), (Indices{1, 2, 3}));
    EXPECT_EQ(top({2, 9, 2, 2, 1}, {}, 3), (Indices{1, 2, 3}));
}

TEST(Top, GoesAroundWhatIsProtected) {
    EXPECT_EQ(top({0, 9, 8, 7, 0}, {{0, 1}, {2, 3}, {4, 5}}, 1), (Indices{0, 1, 2, 4}));
    EXPECT_EQ(top({0, 9, 8, 7, 0}, {{0, 1}, {2, 3}, {4, 5}}, 1, false), (Indices{1}));
    EXPECT_EQ(top({0, 9, 8, 7, 0}, {{0, 5}}, 3), (Indices{0, 1, 2, 3, 4}));
    EXPECT_EQ(top({5, 1, 5, 5}, {{3, 4}}, 1), (Indices{2, 3})) << "a protected entry is no part of a tie";
}

}  // namespace
}  // namespace pith::top_test
