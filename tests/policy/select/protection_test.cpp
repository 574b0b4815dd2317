// protection_test.cpp - sinks, pinned spans and the recent window as ranges.
#include "policy/select/protection.h"

#include <gtest/gtest.h>

namespace pith::protection_test {
namespace {

using Ranges = std::vector<IndexRange>;

TEST(Protection, GoesByOriginalPositionForSinksAndSpansAndByOrderForTheWindow) {
    const std::vector<int32_t> positions = {0, 3, 7, 8, 9, 20, 30, 31};
    EXPECT_EQ(protected_ranges({.n_sinks = 4}, positions), (Ranges{{0, 2}}));
    EXPECT_EQ(protected_ranges({.n_recent = 3}, positions), (Ranges{{5, 8}}));
    EXPECT_EQ(protected_ranges({.pinned = {{7, 9}}}, positions), (Ranges{{2, 4}}));
    EXPECT_EQ(protected_ranges({.pinned = {{10, 19}}}, positions), (Ranges{}));
    EXPECT_EQ(protected_ranges({}, positions), (Ranges{}));
}

TEST(Protection, MergesWhatOverlapsOrTouches) {
    const std::vector<int32_t> positions = {0, 1, 2, 3, 4, 5, 6, 7};
    EXPECT_EQ(protected_ranges({.n_sinks = 2, .n_recent = 2, .pinned = {{5, 6}, {2, 3}, {4, 6}}}, positions),
              (Ranges{{0, 3}, {4, 8}}));
    EXPECT_EQ(protected_ranges({.n_sinks = 100, .n_recent = 100}, positions), (Ranges{{0, 8}}));
    EXPECT_EQ(protected_ranges({.n_sinks = 4, .n_recent = 4}, {}), (Ranges{}));
}

}  // namespace
}  // namespace pith::protection_test
