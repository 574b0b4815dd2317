// hadamard_test.cpp - the fast transform against its matrix.
#include "core/hadamard.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <numeric>
#include <random>
#include <vector>

namespace pith::hadamard_test {
namespace {

std::vector<float> random_row(size_t n, unsigned seed) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    std::vector<float> row(n);
    for (float & x : row) { x = normal(random); }
    return row;
}

TEST(Hadamard, EqualsTheProductWithItsMatrixForEverySizeOfBlock) {
    for (size_t block = 1; block <= 512; block *= 2) {
        const std::vector<float> row = random_row(3 * block, 7);
        std::vector<float> rotated = row;
        rotate_hadamard(rotated, static_cast<int>(block));
        for (size_t i = 0; i < row.size(); ++i) {
            double expected = 0;
            for (size_t j = i / block * block; j < i / block * block + block; ++j) {
                expected += std::popcount(i % block & j % block) % 2 != 0 ? -double{row[j]} : double{row[j]};
            }
            EXPECT_NEAR(rotated[i], expected / std::sqrt(static_cast<double>(block)), 1e-5) << block << ", " << i;
        }
    }
}

TEST(Hadamard, TwiceGivesTheRowBackAndProductsStay) {
    const std::vector<float> a = random_row(128, 1);
    const std::vector<float> b = random_row(128, 2);
    std::vector<float> rotated_a = a;
    std::vector<float> rotated_b = b;
    rotate_hadamard(rotated_a, 128);
    rotate_hadamard(rotated_b, 128);
    const auto product = [](const std::vector<float> & x, const std::vector<float> & y) {
        return std::inner_product(x.begin(), x.end(), y.begin(), 0.0);
    };
    EXPECT_NEAR(product(rotated_a, rotated_b), product(a, b), 1e-4);
    rotate_hadamard(rotated_a, 128);
    for (size_t i = 0; i < a.size(); ++i) { EXPECT_NEAR(rotated_a[i], a[i], 1e-5); }
}

TEST(Hadamard, SpreadsOneLargeElementEvenly) {
    std::vector<float> row(64, 0.0F);
    row[37] = 80.0F;
    rotate_hadamard(row, 64);
    for (const float x : row) { EXPECT_NEAR(std::abs(x), 10.0F, 1e-4F); }
}

TEST(Hadamard, BlocksAreTheLargestPowersOfTwoThatDivide) {
    EXPECT_EQ(hadamard_block(64), 64);
    EXPECT_EQ(hadamard_block(96), 32);
    EXPECT_EQ(hadamard_block(80), 16);
    EXPECT_EQ(hadamard_block(576), 64);
    EXPECT_EQ(hadamard_block(1), 1);
}

}  // namespace
}  // namespace pith::hadamard_test
