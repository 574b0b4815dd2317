// spread_test.cpp - a spread by hand, and of one value and none.
#include "statistics/spread.h"

#include <gtest/gtest.h>

namespace pith::spread_test {
namespace {

TEST(Spread, OfFiveValuesByHand) {
    const Spread spread = spread_of({4, 1, 3, 2, 10});
    EXPECT_DOUBLE_EQ(spread.mean, 4);
    EXPECT_DOUBLE_EQ(spread.deviation, std::sqrt((9 + 4 + 1 + 0 + 36) / 4.0));
    EXPECT_EQ(spread.least, 1);
    EXPECT_EQ(spread.low_quarter, 2);
    EXPECT_EQ(spread.median, 3);
    EXPECT_EQ(spread.high_quarter, 4);
    EXPECT_EQ(spread.largest, 10);
}

TEST(Spread, QuartilesLieBetweenNeighbours) {
    const Spread spread = spread_of({1, 2, 3, 4});
    EXPECT_DOUBLE_EQ(spread.low_quarter, 1.75);
    EXPECT_DOUBLE_EQ(spread.median, 2.5);
    EXPECT_DOUBLE_EQ(spread.high_quarter, 3.25);
}

TEST(Spread, OfOneValueHasNoWidth) {
    const Spread spread = spread_of({7});
    EXPECT_EQ(spread.deviation, 0);
    for (const double value :
         {spread.mean, spread.least, spread.low_quarter, spread.median, spread.high_quarter, spread.largest}) {
        EXPECT_EQ(value, 7);
    }
    EXPECT_EQ(spread_of({}).largest, 0);
}

}  // namespace
}  // namespace pith::spread_test
