// bench_turns_test.cpp - the line through measured times.
#include "speed/bench_turns.h"

#include <gtest/gtest.h>

namespace pith::bench_turns_test {
namespace {

TEST(FitLine, FindsTheLineThatPointsLieOn) {
    const std::vector<double> x = {256, 512, 1024, 4096};
    std::vector<double> y;
    for (const double at : x) { y.push_back(20 + 0.003 * at); }
    const LinearFit fit = fit_line(x, y);
    EXPECT_NEAR(fit.at_zero, 20, 1e-9);
    EXPECT_NEAR(fit.slope, 0.003, 1e-12);
    EXPECT_NEAR(fit.worst, 0, 1e-12);
}

// By hand: means 1 and 2, slope 1/2, at zero 3/2; the middle is 3 where the line is at 2.
TEST(FitLine, TellsHowFarTheFarthestPointIs) {
    const std::vector<double> x = {0, 1, 2};
    const std::vector<double> y = {1, 3, 2};
    const LinearFit fit = fit_line(x, y);
    EXPECT_NEAR(fit.slope, 0.5, 1e-12);
    EXPECT_NEAR(fit.at_zero, 1.5, 1e-12);
    EXPECT_NEAR(fit.worst, 0.5, 1e-12);
}

}  // namespace
}  // namespace pith::bench_turns_test
