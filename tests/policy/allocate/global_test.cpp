// global_test.cpp - one ranking for the whole model.
#include "policy/allocate/weigh_one.h"

namespace pith::test::global_test {
namespace {

using Layer = std::vector<std::vector<float>>;

TEST(Global, CountsTheModelsBestAfterEachLayerIsDividedByItsSum) {
    const Layer small = {{4, 1}, {4, 1}};          // sum 10: .4 .1 .4 .1
    const Layer large = {{300, 300}, {100, 300}};  // sum 1000: .3 .3 .1 .3
    EXPECT_EQ(weights_of("random+global", {small, large}, 2), (std::vector<double>{1, 1, 0, 0}));
    EXPECT_EQ(weights_of("random+global", {small, large}, 5), (std::vector<double>{1, 1, 2, 1}));
    EXPECT_EQ(weights_of("random+global:normalise=off", {small, large}, 4), (std::vector<double>{0, 0, 2, 2}));
}

TEST(Global, TiesGoToTheNewerEntryThenTheLowerLayerThenTheLowerHead) {
    const Layer flat = {{1, 1}, {1, 1}};
    EXPECT_EQ(weights_of("random+global", {flat, flat}, 1), (std::vector<double>{1, 0, 0, 0}));
    EXPECT_EQ(weights_of("random+global", {flat, flat}, 3), (std::vector<double>{1, 1, 1, 0}));
    EXPECT_EQ(weights_of("random+global", {flat, flat}, 5), (std::vector<double>{2, 1, 1, 1}));
}

TEST(Global, LessFlatteningRanksWithinALayerOrNotAtAll) {
    const Layer first = {{9, 8, 7}, {1, 1, 1}};
    const Layer second = {{.9F, .1F, .1F}, {.8F, .7F, .1F}};
    EXPECT_EQ(weights_of("random+global:flatten=head", {first, second}, 6), (std::vector<double>{3, 0, 1, 2}));
    EXPECT_EQ(weights_of("random+global:flatten=none", {first, second}, 6), (std::vector<double>{1.5, 1.5, 1.5, 1.5}));
}

TEST(Global, NegativeScoresKeepTheirOrder) {
    const Layer negative = {{-1, -5}, {-2, -5}};  // less the minimum: 4 0 3 0, sum 7
    EXPECT_EQ(weights_of("random+global", {negative, {{1, 1}, {1, 1}}}, 3), (std::vector<double>{1, 1, 1, 0}));
}

}  // namespace
}  // namespace pith::test::global_test
