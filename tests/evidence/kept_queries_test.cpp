// kept_queries_test.cpp - the newest stay, in order, and copies share them without seeing each other's.
#include "evidence/kept_queries.h"

#include <gtest/gtest.h>

namespace pith::kept_queries_test {
namespace {

constexpr size_t kRow = 100;

void push(KeptQueries & queries, int32_t position) {
    const std::vector<float> row(kRow, static_cast<float>(position));
    queries.push(row.data(), position);
}

void expect_holds(const KeptQueries & queries, int32_t first, int32_t end) {
    ASSERT_EQ(queries.size(), static_cast<size_t>(end - first));
    const std::vector<float> all = queries.newest(queries.size());
    for (int32_t i = 0; i < end - first; ++i) {
        EXPECT_EQ(queries.positions()[static_cast<size_t>(i)], first + i);
        EXPECT_EQ(queries.row(static_cast<size_t>(i)).front(), static_cast<float>(first + i));
        EXPECT_EQ(all[static_cast<size_t>(i) * kRow + kRow - 1], static_cast<float>(first + i));
    }
}

TEST(KeptQueries, AreTheNewestInOrder) {
    KeptQueries queries(kRow, 8);
    for (int32_t i = 0; i < 5; ++i) { push(queries, i); }
    expect_holds(queries, 0, 5);
    for (int32_t i = 5; i < 30; ++i) { push(queries, i); }
    expect_holds(queries, 22, 30);
    queries.keep_newest(3);
    expect_holds(queries, 27, 30);
    queries.set_limit(2);
    push(queries, 30);
    expect_holds(queries, 29, 31);
}

TEST(KeptQueries, AllStayWhereNoLimitIsSet) {
    KeptQueries queries(kRow, KeptQueries::kAll);
    for (int32_t i = 0; i < 300; ++i) { push(queries, i); }
    expect_holds(queries, 0, 300);
}

TEST(KeptQueries, NoneStayWhereNoneAreWanted) {
    KeptQueries queries(kRow, 0);
    push(queries, 1);
    EXPECT_TRUE(queries.empty());
}

TEST(KeptQueries, ACopyStaysWhatItWas) {
    KeptQueries queries(kRow, 8);
    for (int32_t i = 0; i < 12; ++i) { push(queries, i); }
    queries.make_room();
    const KeptQueries before = queries;
    KeptQueries other = queries;
    for (int32_t i = 12; i < 17; ++i) { push(queries, i); }
    for (int32_t i = 12; i < 40; ++i) { push(other, i); }
    expect_holds(before, 4, 12);
    expect_holds(queries, 9, 17);
    expect_holds(other, 32, 40);
}

// The bytes of all copies together are those that are there.
TEST(KeptQueries, CopiesCountWhatTheyShareOnce) {
    KeptQueries queries(kRow, 8);
    for (int32_t i = 0; i < 12; ++i) { push(queries, i); }
    const size_t alone = queries.size_bytes();
    EXPECT_GE(alone, 8 * kRow * sizeof(float));
    const std::vector<KeptQueries> copies(3, queries);
    size_t all = queries.size_bytes();
    for (const KeptQueries & copy : copies) { all += copy.size_bytes(); }
    EXPECT_LT(all, alone + 4 * 8 * 32);  // their lists
    push(queries, 12);
    EXPECT_GT(queries.size_bytes(), copies[0].size_bytes() + kRow * sizeof(float) / 2);
}

TEST(KeptQueries, AreWrittenWhereTheyLieOnceThereIsRoom) {
    KeptQueries queries(kRow, 4);
    for (int32_t i = 0; i < 4; ++i) { push(queries, i); }
    const float * oldest = queries.row(0).data();
    push(queries, 4);
    EXPECT_EQ(queries.row(3).data(), oldest);
    const KeptQueries copy = queries;
    push(queries, 5);
    EXPECT_NE(queries.row(3).data(), copy.row(0).data());
}

}  // namespace
}  // namespace pith::kept_queries_test
