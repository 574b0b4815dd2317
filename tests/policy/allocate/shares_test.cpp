// shares_test.cpp - weights become entries, exactly.
#include "policy/allocate/shares.h"

#include <gtest/gtest.h>

#include <numeric>
#include <random>

namespace pith::shares_test {
namespace {

std::vector<int> shares(const std::vector<double> & weights, const std::vector<int> & lengths, int64_t total) {
    return round_shares(divide(weights, lengths, total), lengths, total);
}

TEST(Shares, AreProportionalWhereThereIsRoom) {
    EXPECT_EQ(shares({1, 2, 3}, {100, 100, 100}, 60), (std::vector<int>{10, 20, 30}));
    EXPECT_EQ(shares({0.1, 0.1, 0.1}, {9, 9, 9}, 27), (std::vector<int>{9, 9, 9}));
    EXPECT_EQ(shares({1, 1}, {5, 5}, 0), (std::vector<int>{0, 0}));
}

TEST(Shares, WhatAFullLaneCannotTakeGoesToTheOthersByWeight) {
    EXPECT_EQ(shares({1, 2, 3}, {100, 100, 5}, 65), (std::vector<int>{20, 40, 5}));
    EXPECT_EQ(shares({8, 1, 1}, {10, 12, 100}, 42), (std::vector<int>{10, 12, 20}));
}

TEST(Shares, RemaindersGoToTheLargestAndTiesToTheLowerLane) {
    EXPECT_EQ(shares({1, 1, 1, 1}, {9, 9, 9, 9}, 10), (std::vector<int>{3, 3, 2, 2}));
    EXPECT_EQ(shares({1, 3, 2}, {9, 9, 9}, 4), (std::vector<int>{1, 2, 1})) << "0.67, 2, 1.33";
    EXPECT_EQ(shares({0.1, 0.2, 0.3, 0.4}, {9, 9, 9, 9}, 5), (std::vector<int>{1, 1, 1, 2}))
        << "0.5, 1, 1.5, 2: a tie, the lower";
}

TEST(Shares, LanesOfNoWeightGetOnlyWhatTheOthersCannotTake) {
    EXPECT_EQ(shares({1, 0, 0}, {10, 10, 10}, 8), (std::vector<int>{8, 0, 0}));
    EXPECT_EQ(shares({1, 0, 0}, {10, 10, 10}, 17), (std::vector<int>{10, 4, 3}));
    EXPECT_EQ(shares({0, 0}, {1, 10}, 5), (std::vector<int>{1, 4}));
    EXPECT_EQ(shares({0, 1}, {10, 0}, 5), (std::vector<int>{5, 0}));
}

TEST(Shares, AreExactWithinLengthsAndBelowTheirCeilings) {
    std::mt19937 rng(3);
    for (int repeat = 0; repeat < 3000; ++repeat) {
        const size_t n = 1 + rng() % 12;
        std::vector<double> weights(n);
        std::vector<int> lengths(n);
        for (size_t i = 0; i < n; ++i) {
            weights[i] = static_cast<double>(rng() % 5 == 0 ? 0 : rng() % 1000) / 7.0;
            lengths[i] = static_cast<int>(rng() % 40);
        }
        const int64_t room = std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
        const int64_t total = room == 0 ? 0 : static_cast<int64_t>(rng() % static_cast<uint64_t>(room + 1));
        const auto fixed = divide(weights, lengths, total);
        const auto rounded = round_shares(fixed, lengths, total);
        const auto ceilings = ceil_shares(fixed, lengths);
        ASSERT_EQ(std::accumulate(rounded.begin(), rounded.end(), int64_t{0}), total);
        for (size_t i = 0; i < n; ++i) {
            ASSERT_GE(rounded[i], 0);
            ASSERT_LE(rounded[i], ceilings[i]) << "a layer never gets back what its cascade dropped";
            ASSERT_LE(ceilings[i], lengths[i]);
        }
    }
}

}  // namespace
}  // namespace pith::shares_test
