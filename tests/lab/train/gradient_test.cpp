// gradient_test.cpp - loss and gradients of every kind of parameter against central differences of a plain f64 Llama.
#include <ggml-backend.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "device/backend.h"
#include "plain_llama.h"
#include "tiny_model.h"
#include "train/kernels/gemm_bf16.h"

namespace pith::train::gradient_test {
namespace {

struct GradientCase {
    bool tied;
    int n_kv_heads;
};

class Gradients : public ::testing::TestWithParam<GradientCase> {};

TEST_P(Gradients, AgreeWithCentralDifferences) {
    auto backend = make_cpu_backend(1);
    ASSERT_TRUE(backend.ok()) << backend.status().message();
    const ModelShape shape = tiny_shape(GetParam().tied, GetParam().n_kv_heads);
    auto parameters = Parameters::make(shape);
    ASSERT_TRUE(parameters.ok());
    const Batch batch = random_batch({37, 3}, shape.n_vocab, 5);  // 37: no multiple of any tile
    constexpr double kScale = 0.25;
    {
        auto graph = StepGraph::make((*parameters)->step_model(), batch.shape, true, false, *backend);
        ASSERT_TRUE(graph.ok()) << graph.status().message();
        auto loss = (*graph)->run(batch, kScale);
        ASSERT_TRUE(loss.ok()) << loss.status().message();
        (*parameters)->zero_gradients();
        (*graph)->add_gradients();

        PlainLlama plain(**parameters);
        const double expected = plain.loss(batch);
        EXPECT_NEAR(loss->nll_sum, expected, 1e-5 * expected);
        corpus::Random random(9);
        for (const Parameter & p : (*parameters)->list()) {
            const auto n = static_cast<size_t>(ggml_nelements(p.value));
            double largest = 0;
            for (size_t i = 0; i < n; ++i) {
                largest = std::max(largest, std::fabs(static_cast<double>(values(p.gradient)[i])));
            }
            EXPECT_GT(largest, 0) << p.name;
            for (int sample = 0; sample < 3; ++sample) {
                const auto i = static_cast<size_t>(random.below(static_cast<int>(n)));
                constexpr double kStep = 1e-4;
                double & x = plain.at(p.name, i);
                const double kept = x;
                x = kept + kStep;
                const double above = plain.loss(batch);
                x = kept - kStep;
                const double below = plain.loss(batch);
                x = kept;
                const double slope = kScale * (above - below) / (2 * kStep);
                EXPECT_NEAR(values(p.gradient)[i], slope, 1e-4 * largest + 1e-6) << p.name << " element " << i;
            }
        }
    }
    parameters->reset();
    ggml_backend_free(*backend);
}

INSTANTIATE_TEST_SUITE_P(Kinds, Gradients,
                         ::testing::Values(GradientCase{false, 2}, GradientCase{true, 2}, GradientCase{false, 4},
                                           GradientCase{false, 1}),
                         [](const auto & one) {
                             return std::string(one.param.tied ? "Tied" : "Untied") + std::to_string(one.param.n_kv_heads) +
                                    "KvHeads";
                         });

TEST(GradientsBf16, PointWhereTheExactOnesDo) {
    if (!has_bf16_gemm()) { GTEST_SKIP() << "no products in bf16"; }
    auto backend = make_cpu_backend(1);
    ASSERT_TRUE(backend.ok());
    const ModelShape shape = tiny_shape();
    auto parameters = Parameters::make(shape);
    ASSERT_TRUE(parameters.ok());
    const Batch batch = random_batch({64, 2}, shape.n_vocab, 5);
    std::vector<std::vector<float>> gradients[2];
    for (const bool bf16 : {false, true}) {
        auto graph = StepGraph::make((*parameters)->step_model(), batch.shape, true, bf16, *backend);
        ASSERT_TRUE(graph.ok());
        ASSERT_TRUE((*graph)->run(batch, 1.0F).ok());
        (*parameters)->zero_gradients();
        (*graph)->add_gradients();
        for (const Parameter & p : (*parameters)->list()) {
            gradients[bf16 ? 1 : 0].emplace_back(values(p.gradient), values(p.gradient) + ggml_nelements(p.gradient));
        }
    }
    for (size_t k = 0; k < gradients[0].size(); ++k) {
        double dot = 0, exact = 0, rounded = 0;
        for (size_t i = 0; i < gradients[0][k].size(); ++i) {
            dot += static_cast<double>(gradients[0][k][i]) * gradients[1][k][i];
            exact += static_cast<double>(gradients[0][k][i]) * gradients[0][k][i];
            rounded += static_cast<double>(gradients[1][k][i]) * gradients[1][k][i];
        }
        EXPECT_GT(dot / std::sqrt(exact * rounded), 0.999) << (*parameters)->list()[k].name;
    }
    parameters->reset();
    ggml_backend_free(*backend);
}

}  // namespace
}  // namespace pith::train::gradient_test
