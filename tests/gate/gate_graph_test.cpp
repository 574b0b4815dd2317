// gate_graph_test.cpp - a gate's logits as inference computes them, against the formulas in f64.
#include "gate/gate_graph.h"

#include <ggml-alloc.h>
#include <ggml-backend.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "device/backend.h"
#include "gate/plain_gate.h"

namespace pith::gate_graph_test {
namespace {

using testing::gate_model;
using testing::plain_gate_logits;
using testing::RandomGate;
using testing::Row;
using testing::small_gate;
void expect_logits(const GateConfig & config) {
    constexpr int kTokens = 37, kLayer = 2;
    const auto file = gate_model();
    const RandomGate gate(config, file->hparams());
    const GateLayerWeights & w = gate.weights.layers[kLayer];
    const int n_embd = file->hparams().n_embd;
    corpus::Random random(3);
    std::vector<Row> x(kTokens, Row(static_cast<size_t>(n_embd)));
    std::vector<float> input;
    for (Row & r : x) {
        for (double & v : r) {
            input.push_back(static_cast<float>(4 * random.uniform() - 2));
            v = input.back();
        }
    }
    std::vector<ggml_fp16_t> visible;
    for (int query = 0; query < kTokens; ++query) {
        for (int key = 0; key < kTokens; ++key) { visible.push_back(ggml_fp32_to_fp16(key <= query ? 0.0F : -INFINITY)); }
    }

    auto backend = make_cpu_backend(1);
    ASSERT_TRUE(backend.ok());
    ggml_context * ctx = ggml_init({256 * ggml_tensor_overhead() + ggml_graph_overhead(), nullptr, true});
    ggml_tensor * in = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, n_embd, kTokens);
    ggml_tensor * mask = ggml_new_tensor_2d(ctx, GGML_TYPE_F16, kTokens, kTokens);
    ggml_set_input(in);
    ggml_set_input(mask);
    const GateAttentionFn attend = [&](ggml_context * c, ggml_tensor * q, ggml_tensor * k, ggml_tensor * v) {
        return flash_gate_attention(c, q, k, v, config.causal ? mask : nullptr);
    };
    ggml_tensor * logits = build_gate(ctx, config, w, in, attend);
    ggml_set_output(logits);
    ggml_cgraph * graph = ggml_new_graph(ctx);
    ggml_build_forward_expand(graph, mask);
    ggml_build_forward_expand(graph, logits);
    ggml_gallocr * allocator = ggml_gallocr_new(ggml_backend_get_default_buffer_type(*backend));
    ASSERT_TRUE(ggml_gallocr_alloc_graph(allocator, graph));
    ggml_backend_tensor_set(in, input.data(), 0, ggml_nbytes(in));
    ggml_backend_tensor_set(mask, visible.data(), 0, ggml_nbytes(mask));
    ASSERT_EQ(ggml_backend_graph_compute(*backend, graph), GGML_STATUS_SUCCESS);

    const std::vector<Row> expected = plain_gate_logits(gate, w, x);
    ASSERT_EQ(logits->ne[0], file->hparams().n_kv_heads);
    ASSERT_EQ(logits->ne[1], kTokens);
    for (size_t t = 0; t < kTokens; ++t) {
        for (size_t k = 0; k < expected[t].size(); ++k) {
            EXPECT_NEAR(static_cast<const float *>(logits->data)[t * expected[t].size() + k], expected[t][k], 2e-5)
                << "token " << t << " head " << k;
        }
    }
    ggml_gallocr_free(allocator);
    ggml_free(ctx);
    ggml_backend_free(*backend);
}

TEST(GateGraph, GlobalGateReadsEveryTokenAsTheFormulaSays) {
    expect_logits(small_gate());
}
TEST(GateGraph, CausalGateReadsOnlyWhatCameBefore) {
    GateConfig config = small_gate();
    config.causal = true;
    expect_logits(config);
}
TEST(GateGraph, LinearGateReadsEachTokenByItself) {
    GateConfig config = small_gate();
    config.kind = GateKind::kLinear;
    expect_logits(config);
}
TEST(GateGraph, HeadsNeedNotBeAPowerOfTwoWide) {
    GateConfig config = small_gate();
    config.n_heads = 3;
    config.head_dim = 10;
    expect_logits(config);
}

TEST(GateConfigWords, ProbabilityAndThresholdAreThePapers) {
    GateConfig config;
    config.gamma = 2.0F;
    config.tau = 0.5F;
    EXPECT_NEAR(gate_probability(0.0F, config), 0.880797F, 1e-6);
    EXPECT_TRUE(gate_keeps(-1.999F, config));
    EXPECT_FALSE(gate_keeps(-2.0F, config));  // p = tau is not above it
    config.tau = 0.3F;
    config.gamma = 0.0F;
    EXPECT_TRUE(gate_keeps(-0.847F, config));
    EXPECT_FALSE(gate_keeps(-0.848F, config));
}

TEST(GateConfigWords, ImpossibleGatesAreNamed) {
    Hparams hparams;
    hparams.n_layers = 3;
    const auto message = [&](const std::function<void(GateConfig &)> & change) {
        GateConfig config;
        change(config);
        const Status status = check(config, hparams);
        EXPECT_EQ(status.code(), ErrorCode::kInvalidArgument);
        return status.message();
    };
    EXPECT_TRUE(check(GateConfig(), hparams).ok());
    EXPECT_NE(message([](GateConfig & c) { c.tau = 1.0F; }).find("tau is 1"), std::string::npos);
    EXPECT_NE(message([](GateConfig & c) { c.gamma = -1.0F; }).find("gamma is -1"), std::string::npos);
    EXPECT_NE(message([](GateConfig & c) { c.n_heads = 0; }).find("heads is 0"), std::string::npos);
    EXPECT_NE(message([](GateConfig & c) { c.head_dim = -4; }).find("head size is -4"), std::string::npos);
    EXPECT_NE(message([](GateConfig & c) { c.n_recent = 0; }).find("recent tokens is 0"), std::string::npos);
    EXPECT_NE(message([](GateConfig & c) { c.first_layer = 3; }).find("first layer is 3"), std::string::npos);
    EXPECT_NE(message([](GateConfig & c) { c.source = GateSource::kPrevious; }).find("first layer is 0"), std::string::npos);
    EXPECT_FALSE(parse_gate_kind("conv").ok());
    EXPECT_FALSE(parse_gate_source("next").ok());
}

}  // namespace
}  // namespace pith::gate_graph_test
