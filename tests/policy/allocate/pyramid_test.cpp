// pyramid_test.cpp - linear in depth.
#include "policy/allocate/weigh_one.h"

namespace pith::test::pyramid_test {
namespace {

void expect_near(const std::vector<double> & found, const std::vector<double> & expected) {
    ASSERT_EQ(found.size(), expected.size());
    for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-9) << i;
}

TEST(Pyramid, FallsFromTwiceTheMeanToAFraction) {
    const std::vector<std::vector<float>> layer(1, std::vector<float>(40, 0.0F));
    expect_near(weights_of("window+pyramid", {layer, layer, layer}, 30), {19.5, 10, 0.5});
    expect_near(weights_of("window+pyramid:beta=2", {layer, layer, layer, layer, layer}, 50), {15, 12.5, 10, 7.5, 5});
    expect_near(weights_of("window+pyramid:beta=1", {layer, layer}, 20), {10, 10});
    expect_near(weights_of("window+pyramid", {layer}, 10), {10});
}

TEST(Pyramid, ALargestLayerThatHasLessGetsAllAndTheLineIsDrawnAnew) {
    const std::vector<std::vector<float>> layer(1, std::vector<float>(12, 0.0F));
    // 2 · 10 - 0.5 = 19.5 of 12 entries: 12 down to 2 · 10 - 12.
    expect_near(weights_of("window+pyramid", {layer, layer, layer}, 30), {12, 10, 8});
}

}  // namespace
}  // namespace pith::test::pyramid_test
