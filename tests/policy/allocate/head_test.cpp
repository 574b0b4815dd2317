// head_test.cpp - measured heads get more.
#include "policy/allocate/weigh_one.h"

namespace pith::test::head_test {
namespace {

const std::vector<std::vector<float>> kLayer(2, std::vector<float>(100, 0.0F));

void expect_near(const std::vector<double> & found, const std::vector<double> & expected) {
    ASSERT_EQ(found.size(), expected.size());
    for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-9) << i;
}

TEST(Head, APartOfTheBudgetGoesByImportance) {
    const HeadImportance importance{.copy = {0, 0, 1, 0}, .reason = {3, 1, 0, 0}};
    expect_near(weights_of("random+head:beta=2", {kLayer, kLayer}, 80, importance), {40, 20, 10, 10});
    expect_near(weights_of("random+head:beta=1", {kLayer, kLayer}, 80, importance), {60, 20, 0, 0});
    expect_near(weights_of("random+head:beta=2:by=copy", {kLayer, kLayer}, 80, importance), {10, 10, 50, 10});
    expect_near(weights_of("random+head:beta=1:by=both", {kLayer, kLayer}, 80, importance), {30, 10, 40, 0});
}

TEST(Head, ScoresOfNothingSpreadTheBudgetEvenly) {
    const HeadImportance importance{.copy = {0, 0, 0, 0}, .reason = {0, 0, 0, 0}};
    expect_near(weights_of("random+head", {kLayer, kLayer}, 80, importance), {20, 20, 20, 20});
}

}  // namespace
}  // namespace pith::test::head_test
