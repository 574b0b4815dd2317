// A dense layer can be differentiated: ggml's gradients of the whole graph against differences of the loss.
#include <gtest/gtest.h>

#include "model/gguf_edit.h"
#include "model/plain_attention.h"
#include "model/random/random_model.h"

namespace pith::gradient_test {
namespace {

using testing::PlainAttention;
using testing::TempFolder;

constexpr int kTokens = 5;

// One graph: tokens → logits → mean cross entropy, with the gradients of `parameters`.
class LossGraph {
public:
    LossGraph(const ModelFile & model, const std::vector<ggml_tensor *> & parameters) : attention_(model.hparams()) {
        const Hparams & hp = model.hparams();
        backend_ = *make_cpu_backend(1);
        ctx_ = ggml_init({4096 * ggml_tensor_overhead() + ggml_graph_overhead_custom(4096, true), nullptr, true});
        graph_ = ggml_new_graph_custom(ctx_, 4096, true);
        for (ggml_tensor * parameter : parameters) { ggml_set_param(parameter); }
        tokens_ = input(ggml_new_tensor_1d(ctx_, GGML_TYPE_I32, kTokens));
        positions_ = input(ggml_new_tensor_1d(ctx_, GGML_TYPE_I32, kTokens));
        rows_ = input(ggml_new_tensor_1d(ctx_, GGML_TYPE_I32, kTokens - 1));
        labels_ = input(ggml_new_tensor_2d(ctx_, GGML_TYPE_F32, hp.n_vocab, kTokens - 1));
        ggml_tensor * hidden = build_embedding(ctx_, hp, model.weights(), tokens_);
        for (int layer = 0; layer < hp.n_layers; ++layer) {
            hidden = build_layer(ctx_, graph_, hp, model.weights(), layer, hidden, positions_, attention_.function(),
                                 layer + 1 == hp.n_layers ? rows_ : nullptr);
        }
        loss_ = ggml_cross_entropy_loss(ctx_, build_head(ctx_, hp, model.weights(), hidden), labels_);
        ggml_set_loss(loss_);
        ggml_set_output(loss_);
        ggml_build_forward_expand(graph_, loss_);
        ggml_build_backward_expand(ctx_, graph_, nullptr);
        for (ggml_tensor * parameter : parameters) { ggml_set_output(ggml_graph_get_grad(graph_, parameter)); }
        allocator_ = ggml_gallocr_new(ggml_backend_get_default_buffer_type(backend_));
        ready_ = ggml_gallocr_alloc_graph(allocator_, graph_);
    }
    LossGraph(const LossGraph &) = delete;
    LossGraph & operator=(const LossGraph &) = delete;
    ~LossGraph() {
        ggml_gallocr_free(allocator_);
        ggml_free(ctx_);
        ggml_backend_free(backend_);
    }

    float compute() {
        EXPECT_TRUE(ready_);
        const int32_t tokens[kTokens] = {3, 141, 59, 26, 5};
        const int32_t positions[kTokens] = {0, 1, 2, 3, 4};
        const int32_t rows[kTokens - 1] = {0, 1, 2, 3};
        std::vector<float> labels(static_cast<size_t>(ggml_nelements(labels_)), 0.0F);
        for (int i = 0; i + 1 < kTokens; ++i) { labels[static_cast<size_t>(i * labels_->ne[0] + tokens[i + 1])] = 1.0F; }
        ggml_graph_reset(graph_);
        ggml_backend_tensor_set(tokens_, tokens, 0, sizeof(tokens));
        ggml_backend_tensor_set(positions_, positions, 0, sizeof(positions));
        ggml_backend_tensor_set(rows_, rows, 0, sizeof(rows));
        ggml_backend_tensor_set(labels_, labels.data(), 0, ggml_nbytes(labels_));
        attention_.fill();
        EXPECT_EQ(ggml_backend_graph_compute(backend_, graph_), GGML_STATUS_SUCCESS);
        float loss = 0.0F;
        ggml_backend_tensor_get(loss_, &loss, 0, sizeof(loss));
        return loss;
    }

    float gradient(ggml_tensor * parameter, size_t element) {
        float value = 0.0F;
        ggml_backend_tensor_get(ggml_graph_get_grad(graph_, parameter), &value, element * sizeof(float), sizeof(float));
        return value;
    }

private:
    static ggml_tensor * input(ggml_tensor * tensor) {
        ggml_set_input(tensor);
        return tensor;
    }

    PlainAttention attention_;
    ggml_backend_t backend_ = nullptr;
    ggml_context * ctx_ = nullptr;
    ggml_cgraph * graph_ = nullptr;
    ggml_tensor *tokens_ = nullptr, *positions_ = nullptr, *rows_ = nullptr, *labels_ = nullptr, *loss_ = nullptr;
    ggml_gallocr_t allocator_ = nullptr;
    bool ready_ = false;
};

class Gradient : public ::testing::TestWithParam<const char *> {};

TEST_P(Gradient, EqualsTheDifferenceQuotientOfTheLoss) {
    TempFolder folder;
    RandomModelSpec spec;
    spec.arch = GetParam();
    spec.n_embd = 32;
    spec.n_kv_heads = spec.n_heads;  // ggml's batched products have no broadcasting backward
    spec.head_dim = 8;
    spec.n_ff = 64;
    spec.n_vocab = 384;
    ASSERT_TRUE(write_random_model(spec, folder.file("m.gguf")).ok());
    const auto model = ModelFile::load(folder.file("m.gguf"), {.use_mmap = false, .repack = false});
    ASSERT_TRUE(model.ok()) << model.status().message();
    const Weights & w = (*model)->weights();
    std::vector<ggml_tensor *> parameters = {w.token_embd, w.output, w.output_norm};
    for (const LayerWeights & layer : w.layers) {
        for (ggml_tensor * p : {layer.attn_norm, layer.wq, layer.wk, layer.wv, layer.wo, layer.bq, layer.bv, layer.q_norm,
                                layer.k_norm, layer.ffn_norm, layer.ffn_gate, layer.ffn_up, layer.ffn_down}) {
            if (p != nullptr) { parameters.push_back(p); }
        }
    }
    LossGraph graph(**model, parameters);
    graph.compute();
    for (ggml_tensor * p : parameters) {
        // An element of the embedding of token 3, which is used; elsewhere any.
        const size_t element = p == w.token_embd ? static_cast<size_t>(3 * p->ne[0] + 1) : 1;
        graph.compute();
        const float analytic = graph.gradient(p, element);
        float value = 0.0F;
        ggml_backend_tensor_get(p, &value, element * sizeof(float), sizeof(float));
        const float h = 2e-2F;
        double loss[2];
        for (int side = 0; side < 2; ++side) {
            const float moved = side == 0 ? value - h : value + h;
            ggml_backend_tensor_set(p, &moved, element * sizeof(float), sizeof(float));
            loss[side] = graph.compute();
        }
        ggml_backend_tensor_set(p, &value, element * sizeof(float), sizeof(float));
        const double numeric = (loss[1] - loss[0]) / (2.0 * h);
        EXPECT_NEAR(analytic, numeric, 2e-4 + 0.03 * std::abs(numeric)) << p->name;
    }
}

INSTANTIATE_TEST_SUITE_P(Dense, Gradient, ::testing::Values("llama", "qwen2", "qwen3"),
                         [](const auto & instance) { return instance.param; });

}  // namespace
}  // namespace pith::gradient_test
