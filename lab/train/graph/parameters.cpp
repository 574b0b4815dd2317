// parameters.cpp - the weights of a model in training, from its shape. Stage: train.
#include "train/graph/parameters.h"

#include <cmath>

#include "core/shape.h"

namespace pith::train {
namespace {

constexpr float kEmbeddingStd = 0.05F;
constexpr float kOutputStd = 0.02F;

}  // namespace

Status ModelShape::check() const {
    const auto bad = [](const std::string & what) { return Status(ErrorCode::kInvalidArgument, "model shape: " + what); };
    if (n_vocab < 2) { return bad("n_vocab is " + std::to_string(n_vocab) + ": at least 2 is required"); }
    if (n_layers < 1 || n_embd < 1 || n_ff < 1 || n_ctx < 1) { return bad("layers, width, n_ff and n_ctx must be positive"); }
    if (n_heads < 1 || n_kv_heads < 1 || n_heads % n_kv_heads != 0) {
        return bad(std::to_string(n_heads) + " heads over " + std::to_string(n_kv_heads) +
                   " KV heads: the first must be a multiple of the second");
    }
    if (head_dim < 2 || head_dim % 2 != 0) {
        return bad("head_dim is " + std::to_string(head_dim) + ": an even number is required");
    }
    return {};
}

Hparams ModelShape::hparams() const {
    Hparams h;
    h.arch_name = "llama";  // and its form: the default
    h.n_vocab = n_vocab;
    h.n_ctx_train = n_ctx;
    h.n_layers = n_layers;
    h.layers.resize(static_cast<size_t>(n_layers));
    h.n_embd = n_embd;
    h.n_heads = n_heads;
    h.n_kv_heads = n_kv_heads;
    h.head_dim = h.head_dim_v = h.n_rot = head_dim;
    h.attention_scale = usual_attention_scale(head_dim);
    h.n_ff = n_ff;
    h.norm_eps = 1e-5F;
    h.rope_base = rope_base;
    h.rope_n_ctx_orig = n_ctx;
    return h;
}

Result<std::unique_ptr<Parameters>> Parameters::make(const ModelShape & shape) {
    PITH_RETURN_IF_ERROR(shape.check());
    std::unique_ptr<Parameters> self(new Parameters);
    self->shape_ = shape;
    self->hparams_ = shape.hparams();
    PITH_RETURN_IF_ERROR(self->begin(static_cast<size_t>(shape.n_layers) * 9 + 3));

    const int64_t n_embd = shape.n_embd;
    const int64_t n_q = static_cast<int64_t>(shape.head_dim) * shape.n_heads;
    const int64_t n_kv = static_cast<int64_t>(shape.head_dim) * shape.n_kv_heads;
    const int64_t n_ff = shape.n_ff;
    const auto by_input = [](int64_t n) { return normal(1.0F / std::sqrt(static_cast<float>(n))); };
    // What is added to the residual stream starts small: depth must not blow it up.
    const float residual = 1.0F / std::sqrt(2.0F * static_cast<float>(shape.n_layers));
    Weights & w = self->weights_;
    w.token_embd = self->add("token_embd.weight", n_embd, shape.n_vocab, normal(kEmbeddingStd));
    for (int l = 0; l < shape.n_layers; ++l) {
        const std::string prefix = std::string("blk.").append(std::to_string(l)).append(".");
        LayerWeights layer;
        layer.attn_norm = self->add(prefix + "attn_norm.weight", n_embd, 0, constant(1.0F));
        layer.wq = self->add(prefix + "attn_q.weight", n_embd, n_q, by_input(n_embd));
        layer.wk = self->add(prefix + "attn_k.weight", n_embd, n_kv, by_input(n_embd));
        layer.wv = self->add(prefix + "attn_v.weight", n_embd, n_kv, by_input(n_embd));
        layer.wo = self->add(prefix + "attn_output.weight", n_q, n_embd, normal(residual * by_input(n_q).size));
        layer.ffn_norm = self->add(prefix + "ffn_norm.weight", n_embd, 0, constant(1.0F));
        layer.ffn_gate = self->add(prefix + "ffn_gate.weight", n_embd, n_ff, by_input(n_embd));
        layer.ffn_up = self->add(prefix + "ffn_up.weight", n_embd, n_ff, by_input(n_embd));
        layer.ffn_down = self->add(prefix + "ffn_down.weight", n_ff, n_embd, normal(residual * by_input(n_ff).size));
        w.layers.push_back(layer);
    }
    w.output_norm = self->add("output_norm.weight", n_embd, 0, constant(1.0F));
    w.output = shape.tied ? w.token_embd : self->add("output.weight", n_embd, shape.n_vocab, normal(kOutputStd));

    PITH_RETURN_IF_ERROR(self->allocate());
    return self;
}

}  // namespace pith::train
