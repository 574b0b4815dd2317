// cpu_entries_test.cpp - what keys and values say by themselves, against plain f64 code: every row format, every instruction
// set of this machine, head sizes that fill no whole number of panels.
#include "attention/cpu/cpu_entries.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "attention/attention_problem.h"

namespace pith::cpu_entries_test {
namespace {

using Vector = std::vector<double>;

constexpr KvFormat kFormats[] = {KvFormat::kF32, KvFormat::kF16, KvFormat::kBF16, KvFormat::kQ8_0, KvFormat::kQ4_0};
constexpr int kEntries = 131;  // more than two blocks, and no multiple of what is taken together

class CpuEntriesTest : public ::testing::TestWithParam<const char *> {
protected:
    void SetUp() override { ASSERT_TRUE(use_cpu_attention_target(GetParam())); }
    void TearDown() override { use_cpu_attention_target(nullptr); }

    // Calls check(entries, their values [n][dim]) for every format and head size.
    template <class Check>
    void for_each_kind(Check check) {
        for (const KvFormat format : kFormats) {
            for (const int dim : {32, 64, 80, 96, 128}) {
                if (!can_attend(format, format, dim, 0)) { continue; }
                SCOPED_TRACE("format " + std::to_string(static_cast<int>(format)) + " dim " + std::to_string(dim));
                const testing::Rows rows = testing::random_rows(format, kEntries, dim, random_);
                EntryRows entries{format, rows.bytes.data(), rows.stride, kEntries, dim};
                std::vector<Vector> values;
                for (int j = 0; j < kEntries; ++j) {
                    values.emplace_back(rows.values.begin() + j * dim, rows.values.begin() + (j + 1) * dim);
                }
                check(entries, values);
            }
        }
    }

    std::mt19937 random_{3};
};

double dot(const Vector & a, const Vector & b) {
    double sum = 0;
    for (size_t c = 0; c < a.size(); ++c) { sum += a[c] * b[c]; }
    return sum;
}

double magnitudes(const Vector & a) {
    double sum = 0;
    for (const double one : a) { sum += std::abs(one); }
    return sum;
}

TEST_P(CpuEntriesTest, Norms) {
    for_each_kind([](const EntryRows & entries, const std::vector<Vector> & values) {
        std::vector<float> l1(kEntries);
        std::vector<float> l2(kEntries);
        norms_of_entries(entries, EntryNorm::kL1, l1.data());
        norms_of_entries(entries, EntryNorm::kL2, l2.data());
        for (size_t j = 0; j < kEntries; ++j) {
            EXPECT_NEAR(l1[j], magnitudes(values[j]), 1e-6 * magnitudes(values[j]));
            EXPECT_NEAR(l2[j], std::sqrt(dot(values[j], values[j])), 1e-6 * l2[j]);
        }
    });
}

TEST_P(CpuEntriesTest, UnitRowsAndTheirCosines) {
    for_each_kind([](const EntryRows & entries, const std::vector<Vector> & values) {
        const auto dim = static_cast<size_t>(entries.dim);
        Vector expected(dim, 0.0);
        for (const Vector & row : values) {
            for (size_t c = 0; c < dim; ++c) { expected[c] += row[c] / std::sqrt(dot(row, row)); }
        }
        Vector sum(dim, 0.0);
        add_unit_entries(entries, sum.data());
        std::vector<float> direction(dim);
        for (size_t c = 0; c < dim; ++c) {
            EXPECT_NEAR(sum[c], expected[c], 1e-5);
            direction[c] = static_cast<float>(sum[c]);
        }
        std::vector<float> cosines(kEntries);
        project_unit_entries(entries, direction.data(), cosines.data());
        for (size_t j = 0; j < kEntries; ++j) {
            EXPECT_NEAR(cosines[j], dot(values[j], expected) / std::sqrt(dot(values[j], values[j])), 1e-4);
        }
    });
}

TEST_P(CpuEntriesTest, RowsOfZerosHaveNoDirection) {
    const std::vector<float> zeros(2 * 32, 0.0F);
    const EntryRows entries{KvFormat::kF32, zeros.data(), 32 * sizeof(float), 2, 32};
    Vector sum(32, 1.0);
    add_unit_entries(entries, sum.data());
    EXPECT_EQ(sum, Vector(32, 1.0));
    const std::vector<float> direction(32, 1.0F);
    std::vector<float> cosines(2, 7.0F);
    project_unit_entries(entries, direction.data(), cosines.data());
    EXPECT_EQ(cosines, std::vector<float>(2, 0.0F));
}

TEST_P(CpuEntriesTest, ReducedProducts) {
    for_each_kind([this](const EntryRows & entries, const std::vector<Vector> & values) {
        const auto dim = static_cast<size_t>(entries.dim);
        std::normal_distribution<float> normal;
        for (const size_t n_columns : {dim, size_t{75}}) {
            std::vector<float> matrix(dim * n_columns);
            std::vector<float> start(n_columns);
            for (float & one : matrix) { one = normal(random_); }
            for (float & one : start) { one = normal(random_); }
            const PackedColumns columns(
                entries.dim, static_cast<int>(n_columns),
                [&](int c, int column) { return matrix[static_cast<size_t>(c) * n_columns + static_cast<size_t>(column)]; },
                start.data());
            std::vector<float> l1(kEntries);
            std::vector<float> l2(kEntries);
            std::vector<float> form(kEntries);
            reduce_products(entries, columns, Reduction::kMagnitudes, l1.data());
            reduce_products(entries, columns, Reduction::kRoot, l2.data());
            reduce_products(entries, columns, Reduction::kForm, form.data());
            for (size_t j = 0; j < kEntries; ++j) {
                Vector y(start.begin(), start.end());
                for (size_t c = 0; c < dim; ++c) {
                    for (size_t r = 0; r < n_columns; ++r) { y[r] += values[j][c] * matrix[c * n_columns + r]; }
                }
                EXPECT_NEAR(l1[j], magnitudes(y), 1e-5 * magnitudes(y));
                EXPECT_NEAR(l2[j], std::sqrt(dot(y, y)), 1e-5 * l2[j]);
                if (n_columns == dim) { EXPECT_NEAR(form[j], dot(y, values[j]), 1e-5 * magnitudes(y)); }
            }
        }
    });
}

TEST_P(CpuEntriesTest, MomentsOfRowsFarFromZero) {
    for (const int d : {7, 32, 80}) {
        constexpr int kRows = 300;
        const int stride = d + 5;
        std::vector<float> rows(static_cast<size_t>(kRows * stride));
        std::normal_distribution<float> normal(30.0F, 1.0F);
        for (float & one : rows) { one = normal(random_); }
        const auto size = static_cast<size_t>(d);
        std::vector<float> scratch(static_cast<size_t>(moment_scratch_floats(d)));
        std::vector<float> mean(size);
        std::vector<float> squares(size * size);
        moments_of(rows.data(), stride, kRows, d, scratch.data(), mean.data(), squares.data());
        Vector expected(size, 0.0);
        const auto at = [&](int i, size_t c) { return double{rows[static_cast<size_t>(i * stride) + c]}; };
        for (int i = 0; i < kRows; ++i) {
            for (size_t c = 0; c < size; ++c) { expected[c] += at(i, c) / kRows; }
        }
        for (size_t r = 0; r < size; ++r) {
            EXPECT_NEAR(mean[r], expected[r], 1e-5);
            for (size_t c = 0; c < size; ++c) {
                double sum = 0;
                for (int i = 0; i < kRows; ++i) { sum += (at(i, r) - expected[r]) * (at(i, c) - expected[c]); }
                ASSERT_NEAR(squares[r * size + c], sum, 2e-3) << "d " << d;
            }
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Targets, CpuEntriesTest, ::testing::ValuesIn(cpu_attention_targets()),
                         [](const auto & target) { return std::string(target.param); });

}  // namespace
}  // namespace pith::cpu_entries_test
