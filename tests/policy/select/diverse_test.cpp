// diverse_test.cpp - lanes of a layer spread their choice.
#include <gtest/gtest.h>

#include "policy/policy.h"
#include "policy/select/selector.h"

namespace pith::test::diverse_test {
namespace {

std::vector<std::vector<int32_t>> choose(const char * policy, const std::vector<std::vector<float>> & scores,
                                         const std::vector<double> & distances, const std::vector<int> & shares,
                                         const std::vector<IndexRange> & range = {}) {
    Ragged<float> rows;
    Ragged<int32_t> positions;
    Ragged<IndexRange> ranges;
    for (const auto & lane : scores) {
        rows.push_row(lane);
        std::vector<int32_t> indices;
        while (indices.size() < lane.size()) indices.push_back(static_cast<int32_t>(indices.size()));
        positions.push_row(indices);
        ranges.push_row(range);
    }
    const LayerProfile profile{1, 1, distances};
    LayerChoice choice;
    const LayerView view{.layer = 0, .positions = positions, .scores = rows, .protected_ranges = ranges, .profile = &profile};
    const Policy parsed = Policy::parse(policy).value();
    const Status status = parsed.selector().select(view, shares, run_in_turn, choice);
    EXPECT_TRUE(status.ok()) << status.message();
    std::vector<std::vector<int32_t>> keep;
    for (int h = 0; h < choice.keep.n_rows(); ++h) {
        keep.emplace_back(choice.keep.row(h).begin(), choice.keep.row(h).end());
        EXPECT_EQ(choice.priority.length(h), choice.keep.length(h));
    }
    return keep;
}

using Kept = std::vector<std::vector<int32_t>>;

// exp(-0.7) = 0.497: a position that one lane has counts about half in a lane of distance 1.
TEST(Diverse, APositionThatAnotherLaneHasCountsLess) {
    const std::vector<std::vector<float>> same = {{4, 3, 1}, {4, 3, 1}};
    EXPECT_EQ(choose("snapkv+diverse:alpha=0.7", same, {1, 1}, {1, 1}), (Kept{{0}, {1}}));
    EXPECT_EQ(choose("snapkv+diverse:alpha=0", same, {1, 1}, {1, 1}), (Kept{{0}, {0}}));
    EXPECT_EQ(choose("snapkv+diverse:alpha=0.2", same, {1, 1}, {1, 1}), (Kept{{0}, {0}})) << "4·exp(-0.2) = 3.27";
}

TEST(Diverse, TheMostDistinctLaneChoosesFirst) {
    const std::vector<std::vector<float>> same = {{4, 3, 1}, {4, 3, 1}};
    EXPECT_EQ(choose("snapkv+diverse:alpha=2.8", same, {1, 2}, {1, 1}), (Kept{{1}, {0}}));
    EXPECT_EQ(choose("snapkv+diverse:alpha=2.8:order=index", same, {1, 2}, {1, 1}), (Kept{{0}, {1}}));
}

TEST(Diverse, ADistinctLaneMindsOthersLess) {
    const std::vector<std::vector<float>> same = {{4, 3, 1}, {4, 3, 1}};
    EXPECT_EQ(choose("snapkv+diverse:alpha=0.7:order=index", same, {1, 1}, {1, 1}), (Kept{{0}, {1}}));
    EXPECT_EQ(choose("snapkv+diverse:alpha=0.7:order=index", same, {1, 9}, {1, 1}), (Kept{{0}, {0}}));
}

TEST(Diverse, EveryLaneThatHasAPositionCounts) {
    const std::vector<std::vector<float>> same = {{4, 3, 1}, {4, 1, 1}, {4, 3, 1.2F}};
    // The third lane sees position 0 twice: 4·exp(-1.4) = 0.99 < 1.2, and position 1 not at all.
    EXPECT_EQ(choose("snapkv+diverse:alpha=0.7:order=index", same, {1, 1, 1}, {1, 1, 2}), (Kept{{0}, {0}, {1, 2}}));
}

TEST(Diverse, ProtectedEntriesStayAndAreNotCounted) {
    const std::vector<std::vector<float>> same = {{4, 3, 1}, {4, 3, 1}};
    EXPECT_EQ(choose("snapkv+diverse:alpha=9", same, {1, 1}, {1, 1}, {{0, 1}}), (Kept{{0, 1}, {0, 2}}));
}

TEST(Diverse, NegativeScoresAreLoweredByTheLanesMinimum) {
    // As 3 2 0: half of 3 is less than 2. Without the shift the factor would raise -1.
    const std::vector<std::vector<float>> same = {{-1, -2, -4}, {-1, -2, -4}};
    EXPECT_EQ(choose("snapkv+diverse:alpha=0.7", same, {1, 1}, {1, 1}), (Kept{{0}, {1}}));
}

}  // namespace
}  // namespace pith::test::diverse_test
