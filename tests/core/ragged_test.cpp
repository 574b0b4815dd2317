// ragged_test.cpp - rows of different lengths in one array.
#include "core/ragged.h"

#include <gtest/gtest.h>

namespace pith::ragged_test {
namespace {

TEST(Ragged, RowsLieOneBehindTheOther) {
    Ragged<int> ragged(std::vector<int>{2, 0, 3}, 7);
    EXPECT_EQ(ragged.n_rows(), 3);
    EXPECT_EQ(ragged.size(), 5U);
    EXPECT_EQ(ragged.length(1), 0);
    ragged.row(2)[1] = 9;
    EXPECT_EQ(std::vector<int>(ragged.flat().begin(), ragged.flat().end()), (std::vector<int>{7, 7, 7, 9, 7}));
    ragged.push_row(std::vector<int>{1, 2});
    EXPECT_EQ(ragged.n_rows(), 4);
    EXPECT_EQ(ragged.row(3)[1], 2);
}

TEST(Ragged, AnEmptyOneHasNoRows) {
    const Ragged<float> ragged;
    EXPECT_EQ(ragged.n_rows(), 0);
    EXPECT_EQ(ragged.size(), 0U);
}

}  // namespace
}  // namespace pith::ragged_test
