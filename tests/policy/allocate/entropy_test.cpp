// entropy_test.cpp - layers whose scores are spread get more.
#include "policy/allocate/weigh_one.h"

namespace pith::test::entropy_test {
namespace {

TEST(Entropy, LayersGetEntriesByTheEntropyOfTheirScores) {
    const std::vector<std::vector<float>> flat = {{1, 1}, {1, 1}};    // entropy log 4 of log 4
    const std::vector<std::vector<float>> halves = {{5, 5}, {0, 0}};  // log 2 of log 4
    EXPECT_EQ(weights_of("random+entropy", {flat, halves}, 3), (std::vector<double>{1, 1, 1, 0}));
    EXPECT_EQ(weights_of("random+entropy", {halves, flat}, 3), (std::vector<double>{1, 0, 1, 1}));
}

TEST(Entropy, ALayerOfOneGoodEntryGetsNothingBesideOthers) {
    const std::vector<std::vector<float>> one = {{7, 0, 0}};
    const std::vector<std::vector<float>> flat = {{2, 2, 2}};
    EXPECT_EQ(weights_of("random+entropy", {one, flat}, 2), (std::vector<double>{0, 2}));
}

TEST(Entropy, NegativeScoresAreLoweredByTheirMinimum) {
    const std::vector<std::vector<float>> negative = {{-1, -1}, {-3, -3}};  // as 2 2 0 0
    const std::vector<std::vector<float>> flat = {{-4, -4}, {-4, -4}};      // as nothing at all: uniform
    EXPECT_EQ(weights_of("random+entropy", {negative, flat}, 3), (std::vector<double>{1, 0, 1, 1}));
}

}  // namespace
}  // namespace pith::test::entropy_test
