// gemm_test.cpp - the trainer's products against the plain sum in f64.
#include "train/kernels/gemm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <vector>

#include "tasks/random.h"
#include "train/kernels/gemm_bf16.h"

namespace pith::train::gemm_test {
namespace {

struct Case {
    GemmShape shape;
    bool a_inner;  // p is contiguous in a
    bool b_inner;
};

constexpr Case kCases[] = {
    {{128, 96, 64}, true, true}, {{64, 40, 300}, false, false}, {{32, 64, 256}, false, true}, {{32, 256, 64}, true, false},
    {{37, 29, 19}, true, true},  {{37, 29, 300}, false, false}, {{1, 1, 1}, true, true},      {{33, 65, 31}, false, true},
};

using Product =
    std::function<void(const GemmShape &, const MatrixView &, const MatrixView &, float *, ptrdiff_t, const GemmRange &)>;

struct Operands {
    std::vector<float> a, b;
    MatrixView av, bv;
};

Operands random_operands(const Case & c, uint64_t seed) {
    corpus::Random random(seed);
    Operands o;
    for (int64_t i = 0; i < c.shape.m * c.shape.k; ++i) { o.a.push_back(static_cast<float>(random.uniform() - 0.5)); }
    for (int64_t i = 0; i < c.shape.n * c.shape.k; ++i) { o.b.push_back(static_cast<float>(random.uniform() - 0.5)); }
    o.av = c.a_inner ? MatrixView{o.a.data(), c.shape.k, 1} : MatrixView{o.a.data(), 1, c.shape.m};
    o.bv = c.b_inner ? MatrixView{o.b.data(), c.shape.k, 1} : MatrixView{o.b.data(), 1, c.shape.n};
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

TEST(Gemm, EqualsThePlainSumForEveryLayout) {
    expect_products(gemm_range, 1e-6);
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
    const Case c{{96, 80, 50}, true, false};
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
