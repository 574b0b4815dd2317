// mul_mat_test.cpp - products with weights inside graphs: which are Pith's own, and that they are ggml's up to rounding, on any
// number of ggml's threads.
#include "model/mul_mat.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <vector>

#include "device/backend.h"
#include "matmul/f32_product.h"
#include "matmul/quantised_product.h"

namespace pith::mul_mat_test {
namespace {

constexpr int64_t kIn = 96;
constexpr int64_t kOut = 50;
constexpr ggml_type kOwnTypes[] = {GGML_TYPE_Q4_K, GGML_TYPE_Q5_K, GGML_TYPE_Q6_K,   GGML_TYPE_IQ4_XS, GGML_TYPE_Q8_0,
                                   GGML_TYPE_Q4_0, GGML_TYPE_Q4_1, GGML_TYPE_IQ4_NL, GGML_TYPE_MXFP4};

// Weights [kIn, kOut] of a type, or of experts, in the host's memory, random.
class Weight {
public:
    explicit Weight(ggml_type type, int64_t n_in = kIn, int64_t n_experts = 1)
        : ctx_(ggml_init({4 * ggml_tensor_overhead(), nullptr, true})) {
        tensor_ = ggml_new_tensor_3d(ctx_.get(), type, n_in, kOut, n_experts);
        buffer_.reset(ggml_backend_alloc_ctx_tensors_from_buft(ctx_.get(), ggml_backend_dev_buffer_type(cpu_device())));
        std::mt19937 random(1);
        std::normal_distribution<float> normal;
        std::vector<float> values(static_cast<size_t>(n_in * kOut * n_experts));
        for (float & value : values) { value = normal(random); }
        std::vector<uint8_t> stored(ggml_nbytes(tensor_));
        ggml_quantize_chunk(type, values.data(), stored.data(), 0, kOut * n_experts, n_in, nullptr);
        ggml_backend_tensor_set(tensor_, stored.data(), 0, stored.size());
    }
    ggml_tensor * tensor() const { return tensor_; }

private:
    struct Free {
        void operator()(ggml_context * ctx) const { ggml_free(ctx); }
        void operator()(ggml_backend_buffer * buffer) const { ggml_backend_buffer_free(buffer); }
    };
    std::unique_ptr<ggml_context, Free> ctx_;
    std::unique_ptr<ggml_backend_buffer, Free> buffer_;
    ggml_tensor * tensor_ = nullptr;
};

// How far a product may be from ggml's. Where weights have a scale for each 32, ggml's rows have scales of 16 bits.
float rounding(ggml_type type) {
    return ggml_blck_size(type) == 32 ? 0.15F : 2e-3F;  // of outputs of about 30
}

class MulMat : public ::testing::Test {
protected:
    void SetUp() override {
        ASSERT_TRUE(load_backends().ok());
        if (!f32_product_pays()) { GTEST_SKIP() << "ggml's product everywhere: no fused multiply-adds"; }
    }
    static OwnedBackend backend(int n_threads) { return OwnedBackend(*make_cpu_backend(n_threads)); }

    // The product of `weight` with n rows, and with every second of 2 n rows, one behind the other.
    static std::vector<float> products(const Weight & weight, int64_t n, int n_threads, bool own) {
        const OwnedBackend threads = backend(n_threads);
        GraphRunner runner(threads.get());
        runner.set_custom_operations(own);
        GraphBuild * build = *runner.begin(16);
        const int64_t n_in = weight.tensor()->ne[0];
        std::vector<float> rows(static_cast<size_t>(2 * n * n_in));
        std::mt19937 random(2);
        std::normal_distribution<float> normal;
        for (float & value : rows) { value = normal(random); }
        ggml_tensor * all = build->input(GGML_TYPE_F32, n_in, 2 * n, static_cast<const float *>(rows.data()));
        ggml_tensor * first = ggml_view_2d(build->ctx(), all, n_in, n, all->nb[1], 0);
        ggml_tensor * apart = ggml_view_2d(build->ctx(), all, n_in, n, 2 * all->nb[1], 0);
        std::vector<float> out(static_cast<size_t>(2 * n * kOut));
        build->output(mul_mat_of(*build)(build->ctx(), weight.tensor(), first), out.data());
        build->output(mul_mat_of(*build)(build->ctx(), weight.tensor(), apart), out.data() + n * kOut);
        EXPECT_TRUE(runner.run().ok());
        return out;
    }
    static ggml_tensor * node(const Weight & weight, bool own) {
        static const OwnedBackend one = backend(1);
        static GraphRunner runner(one.get());
        runner.set_custom_operations(own);
        GraphBuild * build = *runner.begin(16);
        ggml_tensor * x = ggml_new_tensor_2d(build->ctx(), GGML_TYPE_F32, weight.tensor()->ne[0], 7);
        return mul_mat_of(*build)(build->ctx(), weight.tensor(), x);
    }
};

TEST_F(MulMat, OfF32WeightsIsGgmlsUpToRounding) {
    const Weight weight(GGML_TYPE_F32);
    for (const int64_t n : {1, 2, 9, 60}) {
        const std::vector<float> expected = products(weight, n, 1, false);
        const std::vector<float> got = products(weight, n, 1, true);
        for (size_t i = 0; i < expected.size(); ++i) { ASSERT_NEAR(got[i], expected[i], 2e-5) << i; }
        for (int n_threads = 2; n_threads <= 4; ++n_threads) {
            ASSERT_EQ(products(weight, n, n_threads, true), got) << n_threads << " threads";
        }
    }
}

TEST_F(MulMat, IsPithsOwnForF32WeightsButNotForTheseTypes) {
    const ggml_tensor * f32 = node(Weight(GGML_TYPE_F32), true);
    EXPECT_EQ(f32->op, GGML_OP_CUSTOM);
    EXPECT_EQ(part_of(f32), GraphPart::kWeights);  // as a profile shows it
    EXPECT_EQ(node(Weight(GGML_TYPE_F32), false)->op, GGML_OP_MUL_MAT);
    for (const ggml_type type : {GGML_TYPE_F16, GGML_TYPE_BF16, GGML_TYPE_Q5_0, GGML_TYPE_Q5_1}) {
        EXPECT_EQ(node(Weight(type), true)->op, GGML_OP_MUL_MAT) << ggml_type_name(type);
    }
}

TEST_F(MulMat, OfQuantisedWeightsIsGgmlsUpToRounding) {
    for (const ggml_type type : kOwnTypes) {
        if (!has_quantised_product(type, 768)) { continue; }
        const Weight weight(type, 768);
        for (const int64_t n : {1, 3, 9, 60}) {
            const std::vector<float> expected = products(weight, n, 1, false);
            const std::vector<float> got = products(weight, n, 1, true);
            // ggml rounds the same rows to the same bytes; only its floats are added in another order.
            for (size_t i = 0; i < expected.size(); ++i) {
                ASSERT_NEAR(got[i], expected[i], rounding(type)) << ggml_type_name(type) << i;
            }
            for (int n_threads = 2; n_threads <= 4; ++n_threads) {
                ASSERT_EQ(products(weight, n, n_threads, true), got) << n_threads << " threads";
            }
        }
    }
}

TEST_F(MulMat, IsPithsOwnForQuantisedWeightsOfWholeBlocks) {
    for (const ggml_type type : kOwnTypes) {
        if (!has_quantised_product(type, 512)) { continue; }
        const ggml_tensor * own = node(Weight(type, 512), true);
        EXPECT_EQ(own->op, GGML_OP_CUSTOM) << ggml_type_name(type);
        EXPECT_EQ(part_of(own), GraphPart::kWeights);
        EXPECT_EQ(node(Weight(type, 512), false)->op, GGML_OP_MUL_MAT);
    }
}

TEST_F(MulMat, ProductsOfTheSameRowsRoundThemOnce) {
    if (!has_quantised_product(GGML_TYPE_Q4_K, 512)) { GTEST_SKIP() << "ggml's products: no vectors of bytes"; }
    const Weight one(GGML_TYPE_Q4_K, 512);
    const Weight other(GGML_TYPE_Q6_K, 512);
    const OwnedBackend threads = backend(1);
    GraphRunner runner(threads.get());
    for (int graph = 0; graph < 2; ++graph) {  // a new graph in the same memory has rows of its own
        GraphBuild * build = *runner.begin(16);
        ggml_tensor * x = ggml_new_tensor_2d(build->ctx(), GGML_TYPE_F32, 512, 7);
        ggml_tensor * other_x = ggml_new_tensor_2d(build->ctx(), GGML_TYPE_F32, 512, 7);
        const ggml_tensor * first = cpu_mul_mat(build->ctx(), one.tensor(), x);
        const ggml_tensor * second = cpu_mul_mat(build->ctx(), other.tensor(), x);
        const Weight grouped(GGML_TYPE_Q8_0, 512);
        const ggml_tensor * third = cpu_mul_mat(build->ctx(), grouped.tensor(), x);
        if (has_quantised_product(GGML_TYPE_Q8_0, 512)) {
            EXPECT_NE(third->src[1], first->src[1]);  // another kind
            EXPECT_EQ(cpu_mul_mat(build->ctx(), grouped.tensor(), x)->src[1], third->src[1]);
        }
        EXPECT_EQ(first->src[1], second->src[1]);
        EXPECT_EQ(first->src[1]->src[0], x);
        EXPECT_EQ(cpu_mul_mat(build->ctx(), one.tensor(), other_x)->src[1]->src[0], other_x);
    }
}

// Weights of a type, of 5 experts, and a graph that multiplies 2 of them by what a token's experts share or by rows of their
// own.
class MulMatId : public ::testing::Test {
protected:
    static constexpr int64_t kWide = 256;
    static constexpr int64_t kExperts = 5;
    static constexpr int64_t kUsed = 2;

    void SetUp() override { ASSERT_TRUE(load_backends().ok()); }

    static std::vector<float> products(const Weight & weight, int64_t n, bool one_for_all, int n_threads, bool own) {
        const OwnedBackend threads(*make_cpu_backend(n_threads));
        GraphRunner runner(threads.get());
        runner.set_custom_operations(own);
        GraphBuild * build = *runner.begin(16);
        const int64_t n_rows = one_for_all ? 1 : kUsed;
        std::mt19937 random(2);
        std::normal_distribution<float> normal;
        std::vector<float> rows(static_cast<size_t>(n * n_rows * kWide));
        for (float & value : rows) { value = normal(random); }
        std::vector<float> router(static_cast<size_t>(n * kExperts));
        for (float & value : router) { value = normal(random); }
        ggml_tensor * x = build->input(GGML_TYPE_F32, kWide, n_rows * n, static_cast<const float *>(rows.data()));
        x = ggml_reshape_3d(build->ctx(), x, kWide, n_rows, n);
        ggml_tensor * chosen = ggml_argsort_top_k(
            build->ctx(), build->input(GGML_TYPE_F32, kExperts, n, static_cast<const float *>(router.data())), kUsed);
        ggml_tensor * y = mul_mat_of(*build).of_experts(build->ctx(), weight.tensor(), x, chosen);
        EXPECT_EQ(y->op,
                  own && has_expert_product(weight.tensor()->type, kWide, kExperts) ? GGML_OP_CUSTOM : GGML_OP_MUL_MAT_ID);
        std::vector<float> out(static_cast<size_t>(n * kUsed * kOut));
        build->output(y, out.data());
        EXPECT_TRUE(runner.run().ok());
        return out;
    }
};

TEST_F(MulMatId, OfQuantisedExpertsIsGgmlsUpToRounding) {
    for (const ggml_type type : kOwnTypes) {
        if (!has_expert_product(type, kWide, kExperts)) { continue; }
        const Weight weight(type, kWide, kExperts);
        for (const bool one_for_all : {true, false}) {
            for (const int64_t n : {1, 4, 30}) {
                const std::vector<float> expected = products(weight, n, one_for_all, 1, false);
                const std::vector<float> got = products(weight, n, one_for_all, 1, true);
                for (size_t i = 0; i < expected.size(); ++i) {
                    ASSERT_NEAR(got[i], expected[i], rounding(type)) << ggml_type_name(type) << ", " << n << " rows, " << i;
                }
                for (int n_threads = 2; n_threads <= 4; ++n_threads) {
                    ASSERT_EQ(products(weight, n, one_for_all, n_threads, true), got) << n_threads << " threads";
                }
            }
        }
    }
}

TEST_F(MulMatId, OfOtherTypesIsGgmls) {
    for (const ggml_type type : {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_Q3_K}) {
        (void)products(Weight(type, kWide, kExperts), 3, true, 1, true);  // expects the operation
    }
}

TEST_F(MulMatId, ExpertsOfTheSameRowsRoundThemOnce) {
    if (!has_expert_product(GGML_TYPE_MXFP4, kWide, kExperts)) { GTEST_SKIP() << "ggml's products: no vectors of bytes"; }
    const Weight gate(GGML_TYPE_MXFP4, kWide, kExperts);
    const Weight up(GGML_TYPE_MXFP4, kWide, kExperts);
    const Weight plain(GGML_TYPE_MXFP4, kWide);
    const OwnedBackend threads(*make_cpu_backend(1));
    GraphRunner runner(threads.get());
    GraphBuild * build = *runner.begin(16);
    ggml_context * ctx = build->ctx();
    ggml_tensor * x = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, kWide, 7);
    ggml_tensor * rows = ggml_reshape_3d(ctx, x, kWide, 1, 7);
    ggml_tensor * chosen = ggml_new_tensor_2d(ctx, GGML_TYPE_I32, kUsed, 7);
    ggml_tensor * others = ggml_new_tensor_2d(ctx, GGML_TYPE_I32, kUsed, 7);
    const ggml_tensor * first = cpu_mul_mat_id(ctx, gate.tensor(), rows, chosen);
    EXPECT_EQ(cpu_mul_mat_id(ctx, up.tensor(), rows, chosen)->src[1], first->src[1]);
    EXPECT_NE(cpu_mul_mat_id(ctx, up.tensor(), rows, others)->src[1], first->src[1]);
    EXPECT_EQ(cpu_mul_mat_id(ctx, up.tensor(), rows, chosen)->src[1], first->src[1]);
    const ggml_tensor * alone = cpu_mul_mat(ctx, plain.tensor(), x);  // as a shared expert has it
    EXPECT_NE(alone->src[1], first->src[1]);
    EXPECT_EQ(cpu_mul_mat(ctx, plain.tensor(), x)->src[1], alone->src[1]);
}

}  // namespace
}  // namespace pith::mul_mat_test
