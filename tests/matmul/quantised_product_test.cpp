// quantised_product_test.cpp - the CPU's product with quantised weights against the formula in f64, on every instruction set
// and unit of this machine; that all of them, any batch and any number of threads give the same bits; and that it is no further
// from the product in f64 than ggml's.
#include "matmul/quantised_product.h"

#include <ggml.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "attention/cpu/cpu_attention.h"

namespace pith::quantised_product_test {
namespace {

constexpr float kUntouched = -77.0F;
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

ggml_type ggml_type_of(QuantType type) {
    switch (type) {
        case QuantType::kQ4_K:
            return GGML_TYPE_Q4_K;
        case QuantType::kQ5_K:
            return GGML_TYPE_Q5_K;
        case QuantType::kQ6_K:
            return GGML_TYPE_Q6_K;
        case QuantType::kIQ4_XS:
            return GGML_TYPE_IQ4_XS;
        case QuantType::kQ8_0:
            return GGML_TYPE_Q8_0;
        case QuantType::kQ4_0:
            return GGML_TYPE_Q4_0;
        case QuantType::kQ4_1:
            return GGML_TYPE_Q4_1;
        case QuantType::kIQ4_NL:
            return GGML_TYPE_IQ4_NL;
        case QuantType::kMXFP4:
            return GGML_TYPE_MXFP4;
    }
    return GGML_TYPE_COUNT;
}

// Random weights as ggml quantises them, and rows that lie apart.
class Problem {
public:
    Problem(QuantType type, size_t n_in, size_t n_out, size_t n, uint32_t seed)
        : type_(type), n_in_(n_in), n_out_(n_out), n_(n) {
        std::mt19937 random(seed);
        std::normal_distribution<float> normal;
        std::vector<float> values(n_in * n_out);
        for (float & value : values) { value = normal(random) + 0.3F; }  // minima that matter
        stride_ = ggml_row_size(ggml_type_of(type), static_cast<int64_t>(n_in));
        weights_.resize(stride_ * n_out);
        ggml_quantize_chunk(ggml_type_of(type), values.data(), weights_.data(), 0, static_cast<int64_t>(n_out),
                            static_cast<int64_t>(n_in), nullptr);
        dequantised_.resize(values.size());
        dequantise();
        x_.assign(n * x_stride(), kNaN);
        for (size_t j = 0; j < n; ++j) {
            const float size = std::exp(2 * normal(random));  // rows of very different size
            for (size_t c = 0; c < n_in; ++c) { x_[j * x_stride() + c] = size * normal(random); }
        }
    }

    float & x(size_t j, size_t c) { return x_[j * x_stride() + c]; }
    // Of Q8_0: every weight is this byte times its group's scale.
    void set_all_bytes(int8_t value) {
        for (size_t group = 0; group < weights_.size(); group += 34) { std::memset(weights_.data() + group + 2, value, 32); }
        dequantise();
    }
    size_t n() const { return n_; }

    // Rows [first, first + n) with columns [column, column + n_columns), as if there were no others.
    std::vector<float> part(size_t first, size_t n, size_t column, size_t n_columns, int n_threads) const {
        std::vector<QuantisedBlock> blocks(quantised_bytes(n_in_, n) / sizeof(QuantisedBlock));
        auto * groups = reinterpret_cast<QuantisedGroups *>(blocks.data());
        RowsToQuantise rows = {x_.data() + first * x_stride(), x_stride(), n, n_in_, padded_rows(n), blocks.data(), nullptr};
        if (has_groups(type_)) {
            rows.blocks = nullptr;
            rows.groups = groups;
        }
        for (int ith = 0; ith < n_threads; ++ith) { quantise_part(rows, ith, n_threads); }
        std::vector<float> out(n * (n_columns + 3), kUntouched);
        QuantisedProduct product;
        product.type = type_;
        product.weights = weights_.data() + column * stride_;
        product.weight_stride = stride_;
        product.x = rows.blocks;
        product.groups = rows.groups;
        product.block_stride = padded_rows(n);
        product.out = out.data();
        product.out_stride = n_columns + 3;
        product.n_in = n_in_;
        product.n_out = n_columns;
        product.n = n;
        for (int ith = 0; ith < n_threads; ++ith) { multiply_part(product, ith, n_threads); }
        std::vector<float> dense;
        for (size_t j = 0; j < n; ++j) {
            const float * row = out.data() + j * (n_columns + 3);
            dense.insert(dense.end(), row, row + n_columns);
            for (size_t i = n_columns; i < n_columns + 3; ++i) { EXPECT_EQ(row[i], kUntouched) << "wrote beyond row " << j; }
        }
        return dense;
    }
    std::vector<float> all(int n_threads = 1) const { return part(0, n_, 0, n_out_, n_threads); }

    // In f64, of rows that are rounded to 8 bits by the formula or, not `rounded`, as they are.
    std::vector<double> reference(bool rounded) const {
        std::vector<double> out;
        for (size_t j = 0; j < n_; ++j) {
            std::vector<double> row(n_in_);
            const size_t block = has_groups(type_) ? 32 : kQuantBlock;
            for (size_t b = 0; b < n_in_; b += block) {
                float most = 0;
                for (size_t c = b; c < b + block; ++c) { most = std::max(most, std::abs(x_[j * x_stride() + c])); }
                for (size_t c = b; c < b + block; ++c) {
                    const float one = x_[j * x_stride() + c];
                    row[c] = !rounded   ? double{one}
                             : most > 0 ? std::nearbyint(one * (127.0F / most)) * double{most / 127.0F}
                                        : 0.0;
                }
            }
            for (size_t i = 0; i < n_out_; ++i) {
                double sum = 0;
                for (size_t c = 0; c < n_in_; ++c) { sum += row[c] * double{dequantised_[i * n_in_ + c]}; }
                out.push_back(sum);
            }
        }
        return out;
    }
    // The root mean square of what differs, over that of the reference; row by row of `got`, the worst.
    double error(const std::vector<float> & got, const std::vector<double> & expected) const {
        double worst = 0;
        for (size_t j = 0; j < got.size() / n_out_; ++j) {
            double difference = 0;
            double size = 0;
            for (size_t i = j * n_out_; i < (j + 1) * n_out_; ++i) {
                difference += (got[i] - expected[i]) * (got[i] - expected[i]);
                size += expected[i] * expected[i];
            }
            worst = std::max(worst, std::sqrt(difference / size));
        }
        return worst;
    }

private:
    size_t x_stride() const { return n_in_ + 5; }
    void dequantise() {
        ggml_get_type_traits(ggml_type_of(type_))
            ->to_float(weights_.data(), dequantised_.data(), static_cast<int64_t>(dequantised_.size()));
    }

    QuantType type_;
    size_t n_in_;
    size_t n_out_;
    size_t n_;
    size_t stride_ = 0;
    std::vector<uint8_t> weights_;
    std::vector<float> dequantised_;
    std::vector<float> x_;
};

// What the formula says of a problem. One for all instruction sets: to quantise takes longer than to multiply.
struct Answered {
    Problem problem;
    std::vector<double> expected;
};
const Answered & answered(QuantType type, size_t n_in, size_t n_out, size_t n) {
    static std::map<std::pair<QuantType, size_t>, Answered> all;
    const auto key = std::pair(type, n_in);
    if (!all.contains(key)) {
        Problem problem(type, n_in, n_out, n, static_cast<uint32_t>(n_in));
        std::vector<double> expected = problem.reference(true);
        all.emplace(key, Answered{std::move(problem), std::move(expected)});
    }
    return all.at(key);
}

constexpr QuantType kAllTypes[] = {QuantType::kQ4_K, QuantType::kQ5_K, QuantType::kQ6_K,   QuantType::kIQ4_XS, QuantType::kQ8_0,
                                   QuantType::kQ4_0, QuantType::kQ4_1, QuantType::kIQ4_NL, QuantType::kMXFP4};

class QuantisedProductTest : public ::testing::TestWithParam<const char *> {
protected:
    void SetUp() override { ASSERT_TRUE(use_cpu_attention_target(GetParam())); }
    void TearDown() override {
        use_cpu_attention_target(nullptr);
        use_product_unit(ProductUnit::kBest);
    }
};

TEST_P(QuantisedProductTest, EqualsTheFormulaInF64) {
    for (const QuantType type : kAllTypes) {
        for (const size_t n_in : {256U, 1024U, 256U * 70U}) {  // more blocks than are added up at once
            const size_t n_out = n_in > 2000 ? 19 : 70;
            const auto & [problem, expected] = answered(type, n_in, n_out, 50);
            for (const size_t n : {1U, 2U, 3U, 4U, 5U, 6U, 7U, 16U, 33U, 50U}) {
                if (n_in > 2000 && n % 3 != 0) { continue; }
                const double error = problem.error(problem.part(0, n, 0, n_out, 1 + static_cast<int>(n % 3)), expected);
                ASSERT_LE(error, 2e-6) << "type " << static_cast<int>(type) << ", " << n_in << " inputs, " << n << " rows";
            }
        }
    }
}

TEST_P(QuantisedProductTest, WeightsInGroupsOf32NeedNoWholeBlocks) {
    for (const QuantType type : kAllTypes) {
        if (!has_groups(type)) { continue; }
        for (const size_t n_in : {32U, 96U, 288U, 576U, 64U * 33U}) {
            for (const size_t n : {1U, 4U, 5U, 13U}) {
                const Problem problem(type, n_in, 21, n, static_cast<uint32_t>(n + n_in));
                const std::vector<float> whole = problem.all(2);
                ASSERT_LE(problem.error(whole, problem.reference(true)), 2e-6) << n_in << " inputs, " << n << " rows";
                ASSERT_EQ(problem.part(0, 1, 0, 21, 1), std::vector<float>(whole.begin(), whole.begin() + 21));
            }
        }
    }
}

TEST_P(QuantisedProductTest, RowsBeyondWhatMeetsAPanelAtOnceAreMultipliedToo) {
    const Problem problem(QuantType::kQ4_K, 256, 33, 1030, 3);
    EXPECT_LE(problem.error(problem.all(2), problem.reference(true)), 2e-6);
}

TEST_P(QuantisedProductTest, ARowHasTheSameBitsInAnyBatchOnAnyNumberOfThreadsAndOnEveryUnit) {
    for (const QuantType type : kAllTypes) {
        const Problem problem(type, 768, 45, 40, 9);
        const std::vector<float> whole = problem.all();
        for (const size_t n : {1U, 2U, 3U, 4U, 5U, 8U, 13U, 20U}) {
            for (size_t first = 0; first + n <= problem.n(); first += n) {
                const std::vector<float> alone = problem.part(first, n, 0, 45, 1 + static_cast<int>(first % 4));
                ASSERT_EQ(alone, std::vector<float>(whole.begin() + static_cast<std::ptrdiff_t>(first * 45),
                                                    whole.begin() + static_cast<std::ptrdiff_t>((first + n) * 45)))
                    << "type " << static_cast<int>(type) << ", rows from " << first << ", " << n << " of them";
            }
        }
        use_product_unit(ProductUnit::kVectors);
        EXPECT_EQ(problem.all(), whole) << "vectors";
        if (has_matrix_unit() && has_matrix_product(type)) {
            use_product_unit(ProductUnit::kMatrix);
            EXPECT_EQ(problem.all(), whole) << "matrix unit";
        }
        use_product_unit(ProductUnit::kBest);
        if (std::string(GetParam()) == "SSE2") { continue; }  // has no fused multiply-adds
        use_cpu_attention_target(nullptr);                    // the best set, whichever this is
        EXPECT_EQ(problem.all(), whole) << "the best instruction set";
        ASSERT_TRUE(use_cpu_attention_target(GetParam()));
    }
}

// A weight's column has the same bits wherever it stands: heads and vocabularies are cut at will.
TEST_P(QuantisedProductTest, AnOutputHasTheSameBitsWhicheverColumnsStandBesideIt) {
    for (const QuantType type : kAllTypes) {
        for (const size_t n : {2U, 9U, 20U}) {
            const Problem problem(type, 512, 40, n, 4);
            const std::vector<float> whole = problem.all();
            for (size_t i = 0; i < 40; ++i) {
                const std::vector<float> one = problem.part(0, n, i, 1, 1);
                for (size_t j = 0; j < n; ++j) { ASSERT_EQ(one[j], whole[j * 40 + i]) << "row " << j << ", output " << i; }
            }
        }
    }
}

TEST_P(QuantisedProductTest, WhatIsNotANumberStaysInItsRow) {
    for (const float wrong : {kNaN, std::numeric_limits<float>::infinity()}) {
        for (const size_t n : {4U, 20U}) {
            for (const QuantType type : kAllTypes) {
                Problem problem(type, 512, 20, n, 6);
                problem.x(3, 300) = wrong;
                const std::vector<float> out = problem.all();
                for (size_t k = 0; k < out.size(); ++k) { ASSERT_EQ(std::isfinite(out[k]), k / 20 != 3) << k; }
            }
        }
    }
}

// The largest products of bytes that there are, all of one sign.
TEST_P(QuantisedProductTest, BytesAtTheirLimitsAreAddedUpExactly) {
    for (const int8_t byte : {int8_t{-128}, int8_t{127}}) {
        for (const float x : {1.0F, -1.0F}) {
            Problem problem(QuantType::kQ8_0, 256, 20, 9, 6);
            problem.set_all_bytes(byte);
            for (size_t j = 0; j < 9; ++j) {
                for (size_t c = 0; c < 256; ++c) { problem.x(j, c) = x; }
            }
            EXPECT_LE(problem.error(problem.all(), problem.reference(true)), 2e-6) << int{byte} << " times " << x;
            EXPECT_LE(problem.error(problem.part(0, 3, 0, 20, 1), problem.reference(true)), 2e-6)
                << int{byte} << " times " << x;
        }
    }
}

TEST_P(QuantisedProductTest, RowsOfZerosGiveZeros) {
    Problem problem(QuantType::kQ4_K, 256, 20, 9, 6);
    for (size_t c = 0; c < 256; ++c) { problem.x(2, c) = 0; }
    const std::vector<float> out = problem.all();
    for (size_t i = 0; i < 20; ++i) { EXPECT_EQ(out[2 * 20 + i], 0.0F); }
}

// ggml rounds rows to 8 bits in blocks of 256, too: what is further from the truth than a row's rounding would be a fault.
TEST_P(QuantisedProductTest, IsNoFurtherFromTheTruthThanRoundingRowsTo8Bits) {
    for (const QuantType type : kAllTypes) {
        const Problem problem(type, 2048, 64, 12, 8);
        EXPECT_LE(problem.error(problem.all(), problem.reference(false)), 0.012) << static_cast<int>(type);
    }
}

INSTANTIATE_TEST_SUITE_P(Targets, QuantisedProductTest, ::testing::ValuesIn(cpu_attention_targets()),
                         [](const auto & target) { return std::string(target.param); });

}  // namespace
}  // namespace pith::quantised_product_test
