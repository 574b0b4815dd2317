// novelty_test.cpp - SCORE's equations with numbers to check by hand.
#include "policy/allocate/weigh_one.h"

namespace pith::test::novelty_test {
namespace {

const std::vector<std::vector<float>> kLayer = {{9, 8, 7, 6, 1, 1, 1, 1}, {5, 1, 1, 1, 1, 1, 1, 1}};

void expect_near(const std::vector<double> & found, const std::vector<double> & expected) {
    ASSERT_EQ(found.size(), expected.size());
    for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-12) << i;
}

TEST(Novelty, AddsTheDistancesWithinALayerAndTheChangeFromTheLayersBefore) {
    // E: .4, .5·.4 + .5·.6 = .5;  TD: .4, |.6 - .4| = .2, |.1 - .5| = .4;  N: .8, .5, .6
    const std::vector<LayerProfile> profiles = {{.4, .4, {1, 1}}, {.3, .6, {1, 1}}, {.2, .1, {1, 1}}};
    const auto weights = weights_of("random+novelty", {kLayer, kLayer, kLayer}, 19, {}, profiles);
    expect_near({weights[0] + weights[1], weights[2] + weights[3], weights[4] + weights[5]}, {.8, .5, .6});
    const auto within = weights_of("random+novelty:lambda1=2:lambda2=0", {kLayer, kLayer, kLayer}, 19, {}, profiles);
    expect_near({within[0] + within[1], within[2] + within[3], within[4] + within[5]}, {.8, .6, .4});
    const auto slow = weights_of("random+novelty:lambda1=0:gamma=1", {kLayer, kLayer, kLayer}, 19, {}, profiles);
    expect_near({slow[0] + slow[1], slow[2] + slow[3], slow[4] + slow[5]}, {.4, .2, .3});
    // E: 0, .5·0 + .5·.6 = .3;  TD: .4, .6, |.1 - .3| = .2
    const auto zero = weights_of("random+novelty:lambda1=0:start=zero", {kLayer, kLayer, kLayer}, 19, {}, profiles);
    expect_near({zero[0] + zero[1], zero[2] + zero[3], zero[4] + zero[5]}, {.4, .6, .2});
}

TEST(Novelty, LanesOfALayerShareByDistinctnessTimesTheBestTheyHold) {
    // The layer's best five: four of lane 0, one of lane 1.
    expect_near(weights_of("random+novelty", {kLayer}, 5, {}, {{.5, .5, {.1, .6}}}), {.4, .6});
    expect_near(weights_of("random+novelty", {kLayer}, 4, {}, {{.5, .5, {.1, .6}}}), {1, 0});
}

}  // namespace
}  // namespace pith::test::novelty_test
