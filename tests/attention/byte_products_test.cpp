// byte_products_test.cpp - sums of magnitudes of products by signed bytes, against plain f64 code: every unit of this machine,
// every row format, groups and head sizes of real models, and one that no tile of 64 bytes divides.
#include "attention/cpu/cpu_byte_products.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "attention/attention_problem.h"

namespace pith::byte_products_test {
namespace {

constexpr KvFormat kFormats[] = {KvFormat::kF32, KvFormat::kF16, KvFormat::kBF16, KvFormat::kQ8_0, KvFormat::kQ4_0};
constexpr int kEntries = 131;  // two blocks, and entries left over

// A matrix [n_rows][dim] and its bytes, which own what ByteRows points to.
struct Matrix {
    std::vector<float> values;
    std::vector<int8_t> bytes;
    std::vector<float> scales;
    std::vector<int32_t> starts;
    int n_rows = 0;
    int dim = 0;

    Matrix(std::vector<float> from, int rows, int width) : values(std::move(from)), n_rows(rows), dim(width) {
        bytes.resize(values.size() + kByteTile);
        scales.resize(static_cast<size_t>(rows));
        starts.resize(static_cast<size_t>(rows));
        round_to_bytes(values.data(), static_cast<size_t>(dim), rows, dim, bytes.data(), scales.data(), starts.data());
    }
    ByteRows view() const { return {bytes.data(), scales.data(), starts.data(), n_rows, dim}; }

    double magnitudes(const float * x) const {
        double sum = 0;
        for (int r = 0; r < n_rows; ++r) {
            double y = 0;
            for (int c = 0; c < dim; ++c) {
                y += static_cast<double>(values[static_cast<size_t>(r * dim + c)]) * static_cast<double>(x[c]);
            }
            sum += std::abs(y);
        }
        return sum;
    }
};

std::vector<std::vector<float>> sums_of(ByteUnit unit, const EntryRows & entries, const std::vector<Matrix> & matrices) {
    std::vector<std::vector<float>> sums(matrices.size(), std::vector<float>(static_cast<size_t>(entries.n), -1.0F));
    std::vector<ByteRows> views;
    std::vector<float *> out;
    for (size_t m = 0; m < matrices.size(); ++m) {
        views.push_back(matrices[m].view());
        out.push_back(sums[m].data());
    }
    sum_byte_magnitudes(unit, entries, views, out);
    return sums;
}

TEST(ByteProducts, AreCloseToPlainCodeAndTheSameBitsOnEveryUnit) {
    const std::vector<ByteUnit> units = byte_units();
    if (units.empty()) { GTEST_SKIP() << "this processor multiplies no bytes"; }
    std::mt19937 random(7);
    for (const KvFormat format : kFormats) {
        for (const int dim : {16, 64, 80, 128}) {
            if (!can_attend(format, format, dim, 0)) { continue; }
            for (const int n_group : {1, 4, 7}) {
                SCOPED_TRACE("format " + std::to_string(static_cast<int>(format)) + " dim " + std::to_string(dim) + " group " +
                             std::to_string(n_group));
                const testing::Rows rows = testing::random_rows(format, kEntries, dim, random);
                const EntryRows entries{format, rows.bytes.data(), rows.stride, kEntries, dim};
                const int n_rows = 16 * static_cast<int>(8 + random() % 25);
                std::vector<Matrix> matrices;
                for (int g = 0; g < n_group; ++g) {
                    matrices.emplace_back(testing::normal_values(static_cast<size_t>(n_rows * dim), random), n_rows, dim);
                }
                const auto sums = sums_of(units.front(), entries, matrices);
                double squares = 0;
                for (size_t m = 0; m < matrices.size(); ++m) {
                    for (int j = 0; j < kEntries; ++j) {
                        const double expected = matrices[m].magnitudes(rows.values.data() + j * dim);
                        const double error = static_cast<double>(sums[m][static_cast<size_t>(j)]) / expected - 1;
                        squares += error * error;
                        EXPECT_LT(std::abs(error), 0.06 / std::sqrt(n_rows)) << "matrix " << m << ", entry " << j;
                    }
                }
                EXPECT_LT(std::sqrt(squares / (kEntries * n_group)), 0.014 / std::sqrt(n_rows));
                for (const ByteUnit unit : units) { EXPECT_EQ(sums_of(unit, entries, matrices), sums) << to_string(unit); }
            }
        }
    }
}

// The shape of a model of 1 B parameters: what the header promises.
TEST(ByteProducts, OfTwoThousandRowsAreAFewPartsInTenThousandOff) {
    if (byte_units().empty()) { GTEST_SKIP() << "this processor multiplies no bytes"; }
    std::mt19937 random(8);
    constexpr int kDim = 64;
    const testing::Rows rows = testing::random_rows(KvFormat::kF16, kEntries, kDim, random);
    const EntryRows entries{KvFormat::kF16, rows.bytes.data(), rows.stride, kEntries, kDim};
    std::vector<Matrix> matrices;
    matrices.emplace_back(testing::normal_values(size_t{2048} * kDim, random), 2048, kDim);
    const auto sums = sums_of(best_byte_unit(), entries, matrices);
    double squares = 0;
    for (int j = 0; j < kEntries; ++j) {
        const double error =
            static_cast<double>(sums[0][static_cast<size_t>(j)]) / matrices[0].magnitudes(rows.values.data() + j * kDim) - 1;
        squares += error * error;
        EXPECT_LT(std::abs(error), 1e-3);
    }
    EXPECT_LT(std::sqrt(squares / kEntries), 3e-4);
    RecordProperty("root_mean_square", std::to_string(std::sqrt(squares / kEntries)));
}

TEST(ByteProducts, OfAnEntryDoNotDependOnTheOthers) {
    std::mt19937 random(9);
    constexpr int kDim = 80;
    const testing::Rows rows = testing::random_rows(KvFormat::kF16, kEntries, kDim, random);
    std::vector<Matrix> matrices;
    for (int g = 0; g < 2; ++g) { matrices.emplace_back(testing::normal_values(size_t{48} * kDim, random), 48, kDim); }
    for (const ByteUnit unit : byte_units()) {
        const auto all = sums_of(unit, {KvFormat::kF16, rows.bytes.data(), rows.stride, kEntries, kDim}, matrices);
        for (const int j : {0, 1, 63, 64, 65, 130}) {
            const EntryRows alone{KvFormat::kF16, rows.bytes.data() + static_cast<size_t>(j) * rows.stride, rows.stride, 1,
                                  kDim};
            const auto one = sums_of(unit, alone, matrices);
            for (size_t m = 0; m < 2; ++m) { EXPECT_EQ(one[m][0], all[m][static_cast<size_t>(j)]) << to_string(unit); }
        }
    }
}

// Zeros, numbers of any size, one element above all others, and what is not a number.
TEST(ByteProducts, KeepZerosAndSizesAndShowWhatIsNotFinite) {
    constexpr int kDim = 32;
    std::mt19937 random(10);
    std::vector<Matrix> matrices;
    matrices.emplace_back(testing::normal_values(size_t{64} * kDim, random), 64, kDim);
    std::vector<float> values = testing::normal_values(size_t{7} * kDim, random);
    const auto row = [&](int j) { return values.data() + j * kDim; };
    for (int c = 0; c < kDim; ++c) {
        row(1)[c] = 0.0F;
        row(2)[c] *= 1e-12F;
        row(3)[c] *= 1e12F;
    }
    row(4)[5] = 500.0F;
    row(5)[31] = std::numeric_limits<float>::quiet_NaN();
    row(6)[0] = std::numeric_limits<float>::infinity();
    const EntryRows entries{KvFormat::kF32, values.data(), kDim * sizeof(float), 7, kDim};
    for (const ByteUnit unit : byte_units()) {
        const auto sums = sums_of(unit, entries, matrices);
        for (const int j : {0, 2, 3, 4}) {
            const double expected = matrices[0].magnitudes(row(j));
            EXPECT_NEAR(sums[0][static_cast<size_t>(j)], expected, 0.01 * expected) << j;
        }
        EXPECT_EQ(sums[0][1], 0.0F);
        EXPECT_FALSE(std::isfinite(sums[0][5]));
        EXPECT_FALSE(std::isfinite(sums[0][6]));
    }
}

TEST(ByteProducts, UnitsFollowTheChosenTarget) {
    for (const char * target : cpu_attention_targets()) {
        ASSERT_TRUE(use_cpu_attention_target(target));
        const std::vector<ByteUnit> units = byte_units();
        const std::string name = target;
        if (name == "SSE2") { EXPECT_TRUE(units.empty()); }
        if (name == "AVX2") { EXPECT_TRUE(units.empty()); }
        if (name == "AVX2_VNNI") { EXPECT_EQ(units, std::vector<ByteUnit>{ByteUnit::kAvxVnni}); }
    }
    use_cpu_attention_target(nullptr);
}

}  // namespace
}  // namespace pith::byte_products_test
