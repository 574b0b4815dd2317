// copy_on_write_test.cpp - copies share until one of them changes.
#include "core/copy_on_write.h"

#include <gtest/gtest.h>

#include <vector>

namespace pith::copy_on_write_test {
namespace {

TEST(CopyOnWrite, CopiesShareUntilOneChanges) {
    CopyOnWrite<std::vector<int>> one;
    EXPECT_TRUE(one->empty());
    one.own() = {1, 2, 3};
    const int * where = one->data();
    CopyOnWrite<std::vector<int>> other = one;
    EXPECT_EQ(other->data(), where) << "nothing was copied";
    other.own()[0] = 7;
    EXPECT_EQ(*one, (std::vector<int>{1, 2, 3}));
    EXPECT_EQ(*other, (std::vector<int>{7, 2, 3}));
    EXPECT_EQ(one->data(), where);
    EXPECT_EQ(one.own().data(), where) << "alone again: nothing to copy";
    other = one;
    one = {};
    EXPECT_EQ(other.own().data(), where);
}

TEST(CopyOnWrite, WhatWasMovedFromIsEmpty) {
    CopyOnWrite<std::vector<int>> one;
    one.own() = {1, 2, 3};
    const CopyOnWrite<std::vector<int>> other = std::move(one);
    EXPECT_EQ(other->size(), 3U);
    EXPECT_TRUE(one->empty());  // NOLINT(bugprone-use-after-move): that is the question
    one.own().push_back(4);
    EXPECT_EQ(*one, (std::vector<int>{4}));
}

}  // namespace
}  // namespace pith::copy_on_write_test
