// gemm_test.cpp - the trainer's products against the plain sum in f64.
#include "train/kernels/gemm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <vector>

#include "attention/cpu/cpu_attention.h"
#include "tasks/random.h"
#include "train/kernels/gemm_bf16.h"

namespace pith::train::gemm_test {
namespace {

enum class Lies { kByRow, kByP, kApart, kInPanels };  // which neighbour lies beside: p, i or j, none, i of 32 (of a alone)

struct Case {
    GemmShape shape;
    Lies a;
    Lies b;
};

using enum Lies;
constexpr Case kCases[] = {
    {{128, 96, 64}, kByRow, kByRow},    {{64, 40, 300}, kByP, kByP},     {{32, 64, 256}, kByP, kByRow},
    {{32, 256, 64}, kByRow, kByP},      {{37, 29, 19}, kByRow, kByRow},  {{37, 29, 300}, kByP, kByP},
    {{1, 1, 1}, kByRow, kByRow},        {{33, 65, 31}, kByP, kByRow},    {{70, 43, 300}, kApart, kApart},
    {{32, 47, 300}, kInPanels, kApart}, {{32, 45, 64}, kInPanels, kByP},
};

using Product =
    std::function<void(const GemmShape &, const MatrixView &, const MatrixView &, float *, ptrdiff_t, const GemmRange &)>;

struct Operands {
    std::vector<float> a, b;
    MatrixView av, bv;
};

// `rows` of a matrix with k columns, as they lie.
MatrixView view(std::vector<float> & values, int64_t rows, int64_t k, Lies lies, corpus::Random & random) {
    const ptrdiff_t outer = lies == kByRow ? k : lies == kApart ? 2 * k + 3 : 1;
    const ptrdiff_t inner = lies == kByRow ? 1 : lies == kApart ? 2 : lies == kInPanels ? 32 : rows;
    values.resize(static_cast<size_t>((rows - 1) * outer + (k - 1) * inner + 1));
    for (float & value : values) { value = static_cast<float>(random.uniform() - 0.5); }
    return {values.data(), outer, inner};
}

Operands random_operands(const Case & c, uint64_t seed) {
    corpus::Random random(seed);
    Operands o;
    o.av = view(o.a, c.shape.m, c.shape.k, c.a, random);
    o.bv = view(o.b, c.shape.n, c.shape.k, c.b, random);
    return o;
}

double plain(const Operands & o, int64_t i, int64_t j, int64_t k) {
    double sum = 0;
    for (int64_t p = 0; p < k; ++p) {
        sum += static_cast<double>(o.av.data[i * o.av.outer + p * o.av.inner]) *
               static_cast<double>(o.bv.data[j * o.bv.outer + p * o.bv.inner]);
    }
    return sum;
}

void expect_products(const Product & product, double relative) {
    for (const Case & c : kCases) {
        const Operands o = random_operands(c, 7);
        const GemmShape & s = c.shape;
        std::vector<float> out(static_cast<size_t>(s.m * s.n), -1.0F);
        product(s, o.av, o.bv, out.data(), s.m, {0, s.m, 0, s.n});
        const double tolerance = relative * std::sqrt(static_cast<double>(s.k));
        for (int64_t j = 0; j < s.n; ++j) {
            for (int64_t i = 0; i < s.m; ++i) {
                ASSERT_NEAR(out[static_cast<size_t>(i + j * s.m)], plain(o, i, j, s.k), tolerance)
                    << s.m << " x " << s.n << " x " << s.k << " at " << i << ", " << j;
            }
        }
    }
}

TEST(Gemm, EqualsThePlainSumForEveryLayoutOnEveryInstructionSet) {
    for (const char * target : cpu_attention_targets()) {  // of all kernels
        SCOPED_TRACE(target);
        ASSERT_TRUE(use_cpu_attention_target(target));
        expect_products(gemm_range, 1e-6);
    }
    use_cpu_attention_target(nullptr);
}

TEST(GemmBf16, EqualsThePlainSumUpToTheRoundingOfItsOperands) {
    if (!has_bf16_gemm()) { GTEST_SKIP() << "no products in bf16"; }
    for (const Bf16Unit unit : bf16_units()) {
        SCOPED_TRACE(unit == Bf16Unit::kAmx ? "AMX" : "AVX-512");
        const auto product = [unit](const auto &... args) { gemm_bf16_on(unit, args...); };
        expect_products(product, 4e-3);
    }
}
TEST(Gemm, PartsOfTheOutputMakeUpTheWhole) {
    const Case c{{96, 80, 50}, kByRow, kByP};
    const Operands o = random_operands(c, 3);
    std::vector<float> whole(96 * 80), parts(96 * 80);
    gemm_range(c.shape, o.av, o.bv, whole.data(), 96, {0, 96, 0, 80});
    gemm_range(c.shape, o.av, o.bv, parts.data(), 96, {0, 64, 0, 80});
    gemm_range(c.shape, o.av, o.bv, parts.data(), 96, {64, 96, 0, 40});
    gemm_range(c.shape, o.av, o.bv, parts.data(), 96, {64, 96, 40, 80});
    EXPECT_EQ(whole, parts);
}

}  // namespace
}  // namespace pith::train::gemm_test
