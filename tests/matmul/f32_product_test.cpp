// f32_product_test.cpp - the CPU's product with f32 weights against the plain sum in f64, on every instruction set of this
// machine; and that a row's bits are its own, whatever is multiplied beside it.
#include "matmul/f32_product.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "attention/cpu/cpu_attention.h"

namespace pith::f32_product_test {
namespace {

constexpr float kUntouched = -77.0F;
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// Random matrices whose rows lie apart: what is between them is not a number, and must not be read.
class Problem {
public:
    Problem(size_t n_in, size_t n_out, size_t n, uint32_t seed, size_t gap = 3) : random_(seed) {
        weights_ = matrix(n_out, n_in, gap);
        x_ = matrix(n, n_in, 2 * gap);
        out_.assign(n * (n_out + gap), kUntouched);
        p_ = {weights_.data(), x_.data(), out_.data(), n_in + gap, n_in + 2 * gap, n_out + gap, n_in, n_out, n};
    }

    const F32Product & product() const { return p_; }
    float & x(size_t j, size_t c) { return x_[j * p_.x_stride + c]; }
    float out(size_t j, size_t i) const { return out_[j * p_.out_stride + i]; }

    void run(int n_threads) {
        std::fill(out_.begin(), out_.end(), kUntouched);
        for (int ith = 0; ith < n_threads; ++ith) { multiply_part(p_, ith, n_threads); }
    }
    // Rows [first, first + n) of x by themselves, as if there were no others.
    std::vector<float> rows_alone(size_t first, size_t n, int n_threads) const {
        std::vector<float> out(n * p_.n_out, kUntouched);
        F32Product part = p_;
        part.x += first * p_.x_stride;
        part.n = n;
        part.out = out.data();
        part.out_stride = p_.n_out;
        for (int ith = 0; ith < n_threads; ++ith) { multiply_part(part, ith, n_threads); }
        return out;
    }

    // The largest difference to the plain sum, over the sum of the products' sizes.
    double error() const {
        double worst = 0;
        for (size_t j = 0; j < p_.n; ++j) {
            for (size_t i = 0; i < p_.n_out; ++i) {
                double sum = 0;
                double size = 0;
                for (size_t c = 0; c < p_.n_in; ++c) {
                    const double one = double{p_.weights[i * p_.weight_stride + c]} * double{p_.x[j * p_.x_stride + c]};
                    sum += one;
                    size += std::abs(one);
                }
                const double difference = std::abs(double{out(j, i)} - sum);
                worst = std::max(worst, std::isnan(difference) ? 1.0 : difference / size);
            }
        }
        return worst;
    }
    bool wrote_beyond() const {
        for (size_t j = 0; j < p_.n; ++j) {
            for (size_t i = p_.n_out; i < p_.out_stride; ++i) {
                if (out(j, i) != kUntouched) { return true; }
            }
        }
        return false;
    }

private:
    std::vector<float> matrix(size_t n_rows, size_t n_columns, size_t gap) {
        std::uniform_real_distribution<float> uniform(-1.0F, 1.0F);
        std::vector<float> values(n_rows * (n_columns + gap), kNaN);
        for (size_t r = 0; r < n_rows; ++r) {
            for (size_t c = 0; c < n_columns; ++c) { values[r * (n_columns + gap) + c] = uniform(random_); }
        }
        return values;
    }

    std::mt19937 random_;
    std::vector<float> weights_;
    std::vector<float> x_;
    std::vector<float> out_;
    F32Product p_;
};

class F32ProductTest : public ::testing::TestWithParam<const char *> {
protected:
    void SetUp() override { ASSERT_TRUE(use_cpu_attention_target(GetParam())); }
    void TearDown() override { use_cpu_attention_target(nullptr); }

    void check(size_t n_in, size_t n_out, size_t n, int n_threads) {
        SCOPED_TRACE(std::to_string(n_in) + " inputs, " + std::to_string(n_out) + " outputs, " + std::to_string(n) + " rows, " +
                     std::to_string(n_threads) + " threads");
        Problem problem(n_in, n_out, n, ++seed_);
        problem.run(n_threads);
        EXPECT_LE(problem.error(), 1e-6);
        EXPECT_FALSE(problem.wrote_beyond());
    }
    uint32_t seed_ = 0;
};

TEST_P(F32ProductTest, EqualsThePlainSumForEveryNumberOfRows) {
    for (size_t n = 1; n <= 70; ++n) { check(40, 23, n, 1 + static_cast<int>(n % 4)); }
}

TEST_P(F32ProductTest, EqualsThePlainSumForEveryLengthAndWidth) {
    for (size_t n_in = 1; n_in <= 70; ++n_in) { check(n_in, 1 + n_in * 7 % 37, 1 + n_in % 8, 1); }
    for (const size_t n_in : {511U, 512U, 513U, 1024U, 1100U}) {  // around whole chunks
        for (const size_t n : {1U, 5U, 50U}) { check(n_in, 33, n, 2); }
    }
}

TEST_P(F32ProductTest, EqualsThePlainSumForRandomShapes) {
    std::mt19937 random(5);
    const auto pick = [&random](size_t low, size_t high) { return low + random() % (high - low + 1); };
    for (int i = 0; i < 60; ++i) { check(pick(1, 700), pick(1, 90), pick(1, 70), static_cast<int>(pick(1, 4))); }
}

TEST_P(F32ProductTest, MoreThreadsThanTilesLeaveSomeIdle) {
    check(20, 3, 2, 4);
    check(20, 2, 9, 4);
    check(20, 1, 1, 4);
}

TEST_P(F32ProductTest, ARowHasTheSameBitsAloneInAnyBatchAndOnAnyNumberOfThreads) {
    for (const size_t n_in : {1U, 31U, 128U, 200U, 700U}) {
        Problem problem(n_in, 29, 70, ++seed_);
        problem.run(1);
        for (const size_t n : {1U, 2U, 3U, 4U, 5U, 6U, 7U, 13U, 48U, 49U, 69U}) {
            const int n_threads = 1 + static_cast<int>(n % 4);
            for (size_t first = 0; first + n <= 70; first += n) {
                const std::vector<float> alone = problem.rows_alone(first, n, n_threads);
                for (size_t k = 0; k < alone.size(); ++k) {
                    ASSERT_EQ(alone[k], problem.out(first + k / 29, k % 29))
                        << n_in << " inputs, rows from " << first << ", " << n << " of them, number " << k;
                }
            }
        }
    }
}

// A weight's row has the same bits wherever it stands in a tile: heads and vocabularies are cut at will.
TEST_P(F32ProductTest, AnOutputHasTheSameBitsWhicheverWeightsStandBesideIt) {
    Problem problem(200, 30, 9, 3);
    problem.run(1);
    for (size_t first = 0; first < 30; ++first) {
        std::vector<float> out(9);
        F32Product one = problem.product();
        one.weights += first * one.weight_stride;
        one.n_out = 1;
        one.out = out.data();
        one.out_stride = 1;
        multiply_part(one, 0, 1);
        for (size_t j = 0; j < out.size(); ++j) { ASSERT_EQ(out[j], problem.out(j, first)) << "output " << first; }
    }
}

TEST_P(F32ProductTest, WhatIsNotANumberStaysInItsRow) {
    for (const float wrong : {kNaN, std::numeric_limits<float>::infinity()}) {
        Problem problem(37, 10, 8, 4);
        problem.x(3, 36) = wrong;
        problem.run(1);
        for (size_t j = 0; j < 8; ++j) {
            for (size_t i = 0; i < 10; ++i) { EXPECT_EQ(std::isfinite(problem.out(j, i)), j != 3); }
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Targets, F32ProductTest, ::testing::ValuesIn(cpu_attention_targets()),
                         [](const auto & target) { return std::string(target.param); });

}  // namespace
}  // namespace pith::f32_product_test
