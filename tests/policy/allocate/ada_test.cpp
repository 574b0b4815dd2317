// ada_test.cpp - lanes that hold the best scores of their layer get more.
#include "policy/allocate/weigh_one.h"

namespace pith::test::ada_test {
namespace {

const std::vector<std::vector<float>> kLayer = {{9, 8, 7, 1, 1, 1}, {6, 0, 0, 0, 0, 0}};

TEST(Ada, CountsTheLayersBestAndMixesWithTheMean) {
    EXPECT_EQ(weights_of("random+ada:alpha=0", {kLayer}, 4), (std::vector<double>{3, 1}));
    EXPECT_EQ(weights_of("random+ada:alpha=0.5", {kLayer}, 4), (std::vector<double>{2.5, 1.5}));
    EXPECT_EQ(weights_of("random+ada:alpha=1", {kLayer}, 4), (std::vector<double>{2, 2}));
}

TEST(Ada, AHardFloorGuaranteesEachLaneItsPart) {
    EXPECT_EQ(weights_of("random+ada:alpha=0:floor=hard", {kLayer}, 6), (std::vector<double>{5, 1}));
    EXPECT_EQ(weights_of("random+ada:alpha=0.67:floor=hard", {kLayer}, 6), (std::vector<double>{4, 2}));
    EXPECT_EQ(weights_of("random+ada:alpha=1:floor=hard", {kLayer}, 6), (std::vector<double>{3, 3}));
}

TEST(Ada, TiesGoToTheNewerEntryThenTheLowerHead) {
    const std::vector<std::vector<float>> tied = {{1, 1, 1}, {1, 1, 1, 1}};
    EXPECT_EQ(weights_of("random+ada:alpha=0", {tied}, 1), (std::vector<double>{0, 1})) << "position 3 is the newest";
    EXPECT_EQ(weights_of("random+ada:alpha=0", {tied}, 2), (std::vector<double>{1, 1})) << "then position 2 of head 0";
    EXPECT_EQ(weights_of("random+ada:alpha=0", {tied}, 3), (std::vector<double>{1, 2}));
}

TEST(Ada, EachLayerDividesItsOwn) {
    const std::vector<std::vector<float>> flat = {{5, 5, 5, 5}, {0, 0, 0, 0}};
    EXPECT_EQ(weights_of("random+ada:alpha=0", {kLayer, flat}, 8), (std::vector<double>{3, 1, 4, 0}));
}

}  // namespace
}  // namespace pith::test::ada_test
