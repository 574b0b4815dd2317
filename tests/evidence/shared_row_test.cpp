// shared_row_test.cpp - copies stay what they were, whatever becomes of the row, and cost no copy of its numbers.
#include "evidence/shared_row.h"

#include <gtest/gtest.h>

namespace pith::shared_row_test {
namespace {

std::vector<float> numbers(const SharedRow & row) {
    return {row.values().begin(), row.values().end()};
}

SharedRow row_of(const std::vector<float> & values) {
    SharedRow row;
    for (const float value : values) { row.append(value); }
    return row;
}

// Adds `amount` to all, as an attention does: of what lies behind the old ones nothing is read.
void add(SharedRow & row, size_t n, float amount) {
    const auto [before, n_before, to] = row.begin_add(n);
    for (size_t j = 0; j < n; ++j) { to[j] = (j < n_before ? before[j] : 0.0F) + amount; }
}

TEST(SharedRow, GrowsIsCutAndKeepsWhatItIsTold) {
    SharedRow row;
    EXPECT_EQ(row.size(), 0U);
    EXPECT_TRUE(row.values().empty());
    row.resize(2, 7);
    row.append(1);
    row.append(2);
    EXPECT_EQ(numbers(row), (std::vector<float>{7, 7, 1, 2}));
    row.keep(std::vector<int32_t>{0, 2, 3});
    EXPECT_EQ(numbers(row), (std::vector<float>{7, 1, 2}));
    row.resize(1, 0);
    row.append(5);
    EXPECT_EQ(numbers(row), (std::vector<float>{7, 5})) << "what was cut off does not come back";
    add(row, 4, 1);
    EXPECT_EQ(numbers(row), (std::vector<float>{8, 6, 1, 1}));
}

TEST(SharedRow, ACopyStaysWhatItWas) {
    const std::vector<float> was = {1, 2, 3};
    SharedRow row = row_of(was);
    const SharedRow before = row;
    SharedRow other = before;
    row.append(4);
    other.append(5);  // behind the same three
    other.append(6);
    EXPECT_EQ(numbers(row), (std::vector<float>{1, 2, 3, 4}));
    EXPECT_EQ(numbers(other), (std::vector<float>{1, 2, 3, 5, 6}));
    add(other, 5, 1);
    EXPECT_EQ(numbers(other), (std::vector<float>{2, 3, 4, 6, 7}));
    row.own();
    row.keep(std::vector<int32_t>{1, 3});
    EXPECT_EQ(numbers(row), (std::vector<float>{2, 4}));
    EXPECT_EQ(numbers(before), was);
}

TEST(SharedRow, WhatIsAppendedBehindACopyIsNotCopied) {
    SharedRow row = row_of(std::vector<float>(1000, 1));
    row.make_room(10);
    const float * where = row.values().data();
    for (int i = 0; i < 10; ++i) {
        const SharedRow before = row;
        row.append(2);
        EXPECT_EQ(row.values().data(), where);
        EXPECT_EQ(before.size() + 1, row.size());
    }
}

// A decoded token's way back, from token to token.
TEST(SharedRow, TwoBuffersTakeTurnsWhereACopyIsHeldFromTokenToToken) {
    SharedRow row = row_of({1, 2});
    const float * first = row.values().data();
    const float * second = nullptr;
    for (size_t token = 0; token < 6; ++token) {
        const std::vector<float> was = numbers(row);
        const SharedRow before = row;
        row.prepare_add(2);
        add(row, 2, 1);
        EXPECT_EQ(numbers(before), was);
        if (token == 0) { second = row.values().data(); }
        EXPECT_EQ(row.values().data(), token % 2 == 0 ? second : first) << token;
    }
    EXPECT_NE(first, second);
    EXPECT_EQ(numbers(row), (std::vector<float>{7, 8}));
}

TEST(SharedRow, GoesBackWhateverHasBeenDoneToIt) {
    const std::vector<float> was = {1, 2, 3};
    for (int how = 0; how < 5; ++how) {
        SharedRow row = row_of(was);
        const float * where = row.values().data();
        {
            const SharedRow before = row;
            if (how == 1) { row.prepare_add(4); }
            if (how == 2) { add(row, 4, 1); }
            if (how == 3) { row.append(9); }
            if (how == 4) {
                row.own();
                row.keep(std::vector<int32_t>{2});
            }
            row.go_back(before);
        }
        EXPECT_EQ(numbers(row), was) << how;
        EXPECT_EQ(row.values().data(), where) << how;
        row.append(4);
        EXPECT_EQ(numbers(row), (std::vector<float>{1, 2, 3, 4})) << how;
    }
    SharedRow empty;
    const SharedRow before = empty;
    add(empty, 2, 1);
    empty.go_back(before);
    EXPECT_EQ(empty.size(), 0U);
}

// The bytes of all copies together are those that are there.
TEST(SharedRow, CopiesCountWhatTheyShareOnce) {
    const SharedRow row = row_of(std::vector<float>(1000, 1));
    const size_t alone = row.size_bytes();
    EXPECT_GE(alone, 4000U);
    const std::vector<SharedRow> copies(3, row);
    size_t all = row.size_bytes();
    for (const SharedRow & copy : copies) { all += copy.size_bytes(); }
    EXPECT_LE(all, alone);
    EXPECT_GT(all, alone - 4);
}

TEST(SharedRow, MemoryOfAWholePromptGoesWithIt) {
    SharedRow row = row_of(std::vector<float>(10000, 1));
    row.keep(std::vector<int32_t>{1, 2, 3});
    EXPECT_LT(row.size_bytes(), 100U);
}

}  // namespace
}  // namespace pith::shared_row_test
