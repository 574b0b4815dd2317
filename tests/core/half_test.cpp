// half_test.cpp - rounding to half precision against its definition.
#include "core/half.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace pith::half_test {
namespace {

double value_of(uint16_t half) {
    const int exponent = half >> 10 & 31;
    const int mantissa = half & 1023;
    const double magnitude = exponent == 31  ? (mantissa == 0 ? std::numeric_limits<double>::infinity() : std::nan(""))
                             : exponent == 0 ? std::ldexp(mantissa, -24)
                                             : std::ldexp(1024 + mantissa, exponent - 25);
    return (half & 0x8000) != 0 ? -magnitude : magnitude;
}

// The nearest multiple of the distance that halves of this size have; of two the even one.
double nearest(float x) {
    if (std::abs(x) >= 65520) { return std::copysign(std::numeric_limits<double>::infinity(), x); }
    const int exponent = x == 0 ? -14 : std::max(std::ilogb(x), -14);
    return std::ldexp(std::nearbyint(std::ldexp(double{x}, 10 - exponent)), exponent - 10);
}

void expect_nearest(const std::vector<float> & values) {
    std::vector<uint16_t> halves(values.size());
    round_to_half(values, halves.data());
    for (size_t i = 0; i < values.size(); ++i) {
        if (std::isnan(values[i])) {
            ASSERT_TRUE(std::isnan(value_of(halves[i])));
            continue;
        }
        ASSERT_EQ(value_of(halves[i]), nearest(values[i])) << std::hexfloat << values[i];
        ASSERT_EQ((halves[i] & 0x8000) != 0, std::signbit(values[i])) << std::hexfloat << values[i];
    }
}

TEST(Half, EveryHalfStaysAndWhatLiesBetweenTwoGoesToTheNearer) {
    std::vector<float> values;
    for (int bits = 0; bits < 0x7c00; ++bits) {
        const auto here = static_cast<float>(value_of(static_cast<uint16_t>(bits)));
        const float next = bits == 0x7bff ? 65536.0F : static_cast<float>(value_of(static_cast<uint16_t>(bits + 1)));
        const float middle = here + (next - here) / 2;
        for (const float x : {here, middle, std::nextafter(middle, 0.0F), std::nextafter(middle, 1e9F)}) {
            values.push_back(x);
            values.push_back(-x);
        }
    }
    expect_nearest(values);
    // What stands beside no number is rounded in another way.
    for (size_t i = 5; i < values.size(); i += 8) { values[i] = std::numeric_limits<float>::quiet_NaN(); }
    expect_nearest(values);
}

TEST(Half, AnyBits) {
    std::mt19937 random(5);
    std::vector<float> values;
    for (int i = 0; i < 1'000'003; ++i) { values.push_back(std::bit_cast<float>(static_cast<uint32_t>(random()))); }
    for (const float x : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::max(), std::nanf("1"),
                          std::numeric_limits<float>::denorm_min(), std::numeric_limits<float>::min()}) {
        values.push_back(x);
        values.push_back(-x);
    }
    expect_nearest(values);
}

TEST(Half, WritesAsManyAsThereAre) {
    for (size_t n = 0; n < 40; ++n) {
        const std::vector<float> values(n, 1.5F);
        std::vector<uint16_t> halves(n + 1, 7);
        round_to_half(values, halves.data());
        EXPECT_EQ(halves, [n] {
            std::vector<uint16_t> expected(n, 0x3e00);
            expected.push_back(7);
            return expected;
        }());
    }
}

}  // namespace
}  // namespace pith::half_test
