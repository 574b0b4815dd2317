// expert_product_test.cpp - rows laid together by expert: the same bits as each row's product with its expert's weights alone
// (whose tests compare those with the formula), whatever was chosen, on any number of threads and every instruction set.
#include "matmul/expert_product.h"

#include <ggml.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "attention/cpu/cpu_attention.h"

namespace pith::expert_product_test {
namespace {

constexpr float kUntouched = -77.0F;
constexpr size_t kOut = 75;  // two panels and a piece

struct Kind {
    QuantType type;
    ggml_type in_file;
    size_t n_in;
};
constexpr Kind kBlocks = {QuantType::kQ4_K, GGML_TYPE_Q4_K, 512};
constexpr Kind kGroups = {QuantType::kMXFP4, GGML_TYPE_MXFP4, 288};  // not whole blocks of 256, as gpt-oss has them

struct Case {
    Kind kind;
    size_t n_tokens;
    size_t n_used;
    size_t n_experts;
    bool one_for_all;  // all experts of a token get the same row
};

class Experts {
public:
    explicit Experts(const Case & c) : case_(c) {
        std::mt19937 random(static_cast<uint32_t>(c.n_tokens * 31 + c.n_used));
        std::normal_distribution<float> normal;
        const auto n_in = static_cast<int64_t>(c.kind.n_in);
        std::vector<float> values(c.n_experts * kOut * c.kind.n_in);
        for (float & value : values) { value = normal(random); }
        stride_ = ggml_row_size(c.kind.in_file, n_in);
        weights_.resize(stride_ * kOut * c.n_experts);
        ggml_quantize_chunk(c.kind.in_file, values.data(), weights_.data(), 0, static_cast<int64_t>(kOut * c.n_experts), n_in,
                            nullptr);
        x_.resize(c.n_tokens * (c.one_for_all ? 1 : c.n_used) * x_stride());
        for (float & value : x_) { value = normal(random); }
        std::vector<int32_t> experts(c.n_experts);
        std::iota(experts.begin(), experts.end(), 0);
        for (size_t t = 0; t < c.n_tokens; ++t) {
            std::shuffle(experts.begin(), experts.end(), random);
            // The last expert is everybody's first, so that one has many rows and others have few or none.
            std::iter_swap(experts.begin(), std::ranges::find(experts, static_cast<int32_t>(c.n_experts) - 1));
            for (size_t u = 0; u < c.n_used; ++u) { chosen_.push_back(experts[u]); }
            chosen_.insert(chosen_.end(), 2, -1);  // what stands behind is nobody's
        }
    }

    // [token][used][kOut], of tokens [first, first + n) as if there were no others.
    std::vector<float> products(size_t first, size_t n, int n_threads) const {
        ChosenExperts of;
        of.chosen = chosen_.data() + first * chosen_stride();
        of.stride = chosen_stride();
        of.n_tokens = n;
        of.n_used = case_.n_used;
        of.n_experts = case_.n_experts;
        std::vector<uint8_t> rows(ExpertRows::bytes(of, case_.kind.n_in));
        ExpertRowsToQuantise quantise;
        quantise.of = of;
        quantise.used_stride = x_stride();
        quantise.token_stride = x_stride() * (case_.one_for_all ? 1 : case_.n_used);
        quantise.x = x_.data() + first * quantise.token_stride;
        quantise.one_for_all = case_.one_for_all;
        quantise.n_in = case_.kind.n_in;
        quantise.in_groups = has_groups(case_.kind.type);
        quantise.rows = rows.data();
        for (int ith = 0; ith < n_threads; ++ith) { quantise_experts_part(quantise, ith, n_threads); }
        ExpertProduct product;
        product.of = of;
        product.type = case_.kind.type;
        product.weights = weights_.data();
        product.weight_stride = stride_;
        product.expert_stride = stride_ * kOut;
        product.rows = rows.data();
        std::vector<float> out(of.n() * kOut, kUntouched);
        product.out = out.data();
        product.out_stride = kOut;
        product.n_in = case_.kind.n_in;
        product.n_out = kOut;
        for (int ith = 0; ith < n_threads; ++ith) { multiply_experts_part(product, ith, n_threads); }
        return out;
    }

    // The row of one token and choice with its expert's weights, by the product of one matrix.
    std::vector<float> alone(size_t t, size_t u) const {
        std::vector<QuantisedBlock> rows(quantised_bytes(case_.kind.n_in, 1) / sizeof(QuantisedBlock));
        RowsToQuantise quantise;
        quantise.x = x_.data() + (case_.one_for_all ? t : t * case_.n_used + u) * x_stride();
        quantise.n = 1;
        quantise.n_in = case_.kind.n_in;
        quantise.block_stride = padded_rows(1);
        QuantisedProduct product;
        if (has_groups(case_.kind.type)) {
            product.groups = quantise.groups = reinterpret_cast<QuantisedGroups *>(rows.data());
        } else {
            product.x = quantise.blocks = rows.data();
        }
        quantise_part(quantise, 0, 1);
        product.type = case_.kind.type;
        product.weights = weights_.data() + static_cast<size_t>(chosen_[t * chosen_stride() + u]) * stride_ * kOut;
        product.weight_stride = stride_;
        product.block_stride = padded_rows(1);
        std::vector<float> out(kOut);
        product.out = out.data();
        product.out_stride = kOut;
        product.n_in = case_.kind.n_in;
        product.n_out = kOut;
        product.n = 1;
        multiply_part(product, 0, 1);
        return out;
    }

    // Weights of all experts that nobody chose become such as would spoil a product.
    void spoil_unchosen() {
        for (size_t e = 0; e < case_.n_experts; ++e) {
            if (std::ranges::count(chosen_, static_cast<int32_t>(e)) > 0) { continue; }
            std::fill_n(weights_.begin() + static_cast<std::ptrdiff_t>(e * stride_ * kOut), stride_ * kOut, uint8_t{0xff});
        }
    }
    void spoil_row(size_t row) { x_[row * x_stride() + 3] = std::numeric_limits<float>::quiet_NaN(); }

private:
    size_t x_stride() const { return case_.kind.n_in + 5; }
    size_t chosen_stride() const { return case_.n_used + 2; }

    Case case_;
    size_t stride_ = 0;
    std::vector<uint8_t> weights_;
    std::vector<float> x_;
    std::vector<int32_t> chosen_;
};

class ExpertProductTest : public ::testing::TestWithParam<const char *> {
protected:
    void SetUp() override { ASSERT_TRUE(use_cpu_attention_target(GetParam())); }
    void TearDown() override { use_cpu_attention_target(nullptr); }
};

TEST_P(ExpertProductTest, EachRowIsThatOfItsExpertAloneOnAnyNumberOfThreads) {
    for (const Kind & kind : {kBlocks, kGroups}) {
        for (const bool one_for_all : {true, false}) {
            for (const size_t n_tokens : {1U, 2U, 5U, 40U}) {
                for (const size_t n_used : {1U, 2U, 4U}) {
                    Experts experts({kind, n_tokens, n_used, 9, one_for_all});
                    experts.spoil_unchosen();
                    std::vector<float> expected;
                    for (size_t i = 0; i < n_tokens * n_used; ++i) {
                        const std::vector<float> row = experts.alone(i / n_used, i % n_used);
                        expected.insert(expected.end(), row.begin(), row.end());
                    }
                    for (const int n_threads : {1, 2, 3, 7, 64}) {
                        ASSERT_EQ(experts.products(0, n_tokens, n_threads), expected)
                            << n_tokens << " tokens, " << n_used << " used, " << n_threads << " threads";
                    }
                }
            }
        }
    }
}

TEST_P(ExpertProductTest, ATokenHasTheSameBitsInAnyBatch) {
    for (const Kind & kind : {kBlocks, kGroups}) {
        const Experts experts({kind, 30, 3, 7, true});
        const std::vector<float> whole = experts.products(0, 30, 1);
        for (const size_t n : {1U, 4U, 5U, 13U}) {
            for (size_t first = 0; first + n <= 30; first += n) {
                const auto begin = whole.begin() + static_cast<std::ptrdiff_t>(first * 3 * kOut);
                ASSERT_EQ(experts.products(first, n, 2),
                          std::vector<float>(begin, begin + static_cast<std::ptrdiff_t>(n * 3 * kOut)))
                    << n << " tokens from " << first;
            }
        }
    }
}

TEST_P(ExpertProductTest, WhatIsNotANumberStaysInItsToken) {
    for (const bool one_for_all : {true, false}) {
        Experts experts({kGroups, 12, 2, 3, one_for_all});
        experts.spoil_row(5);  // of token 5, or of the second choice of token 2
        const std::vector<float> out = experts.products(0, 12, 2);
        for (size_t i = 0; i < out.size(); ++i) {
            const size_t row = i / kOut;
            ASSERT_EQ(std::isfinite(out[i]), one_for_all ? row / 2 != 5 : row != 5) << i;
        }
    }
}

TEST_P(ExpertProductTest, AModelMayHaveAsManyExpertsAsThereIsRoomFor) {
    const Experts experts({kGroups, 3, 2, kMostExperts, true});
    const std::vector<float> out = experts.products(0, 3, 2);
    for (size_t i = 0; i < 6; ++i) {
        const auto begin = out.begin() + static_cast<std::ptrdiff_t>(i * kOut);
        ASSERT_EQ(std::vector<float>(begin, begin + kOut), experts.alone(i / 2, i % 2));
    }
}

INSTANTIATE_TEST_SUITE_P(Targets, ExpertProductTest, ::testing::ValuesIn(cpu_attention_targets()),
                         [](const auto & target) { return std::string(target.param); });

}  // namespace
}  // namespace pith::expert_product_test
