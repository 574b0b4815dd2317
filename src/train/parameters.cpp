// parameters.cpp - the weights of a model in training, their gradients and AdamW's moments. Stage: train.
#include "train/parameters.h"

#include <ggml-alloc.h>
#include <ggml-backend.h>
#include <ggml.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "corpus/random.h"

namespace pith::train {
namespace {

constexpr float kEmbeddingStd = 0.05F;
constexpr float kOutputStd = 0.02F;

void fill(ggml_tensor * t, float value) {
    std::fill(values(t), values(t) + ggml_nelements(t), value);
}

}  // namespace

float * values(ggml_tensor * tensor) {
    return static_cast<float *>(tensor->data);
}
const float * values(const ggml_tensor * tensor) {
    return static_cast<const float *>(tensor->data);
}

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
    h.arch = Arch::kLlama;
    h.arch_name = "llama";
    h.n_vocab = n_vocab;
    h.n_ctx_train = n_ctx;
    h.n_layers = n_layers;
    h.n_embd = n_embd;
    h.n_heads = n_heads;
    h.n_kv_heads = n_kv_heads;
    h.head_dim = h.head_dim_v = h.n_rot = head_dim;
    h.n_ff = n_ff;
    h.rms_eps = 1e-5F;
    h.rope_base = rope_base;
    h.rope_n_ctx_orig = n_ctx;
    return h;
}

ggml_tensor * Parameters::add(const std::string & name, int64_t ne0, int64_t ne1, float init_std) {
    Parameter p;
    p.name = name;
    p.init_std = init_std;
    p.decays = init_std > 0.0F;
    for (ggml_tensor ** t : {&p.value, &p.gradient, &p.m, &p.v}) {
        *t = ne1 > 0 ? ggml_new_tensor_2d(ctx_, GGML_TYPE_F32, ne0, ne1) : ggml_new_tensor_1d(ctx_, GGML_TYPE_F32, ne0);
    }
    ggml_set_name(p.value, name.c_str());
    ggml_set_param(p.value);
    list_.push_back(p);
    return p.value;
}

Result<std::unique_ptr<Parameters>> Parameters::make(const ModelShape & shape, ggml_backend_t backend) {
    PITH_RETURN_IF_ERROR(shape.check());
    std::unique_ptr<Parameters> self(new Parameters);
    self->shape_ = shape;
    self->hparams_ = shape.hparams();
    const size_t n_tensors = 4 * (static_cast<size_t>(shape.n_layers) * 9 + 3);
    self->ctx_ = ggml_init({n_tensors * ggml_tensor_overhead(), nullptr, true});
    if (self->ctx_ == nullptr) { return {ErrorCode::kOutOfMemory, "no memory for the parameters' descriptions"}; }

    const int64_t n_embd = shape.n_embd;
    const int64_t n_q = static_cast<int64_t>(shape.head_dim) * shape.n_heads;
    const int64_t n_kv = static_cast<int64_t>(shape.head_dim) * shape.n_kv_heads;
    const int64_t n_ff = shape.n_ff;
    const auto by_input = [](int64_t n) { return 1.0F / std::sqrt(static_cast<float>(n)); };
    // What is added to the residual stream starts small: depth must not blow it up.
    const float residual = 1.0F / std::sqrt(2.0F * static_cast<float>(shape.n_layers));
    Weights & w = self->weights_;
    w.token_embd = self->add("token_embd.weight", n_embd, shape.n_vocab, kEmbeddingStd);
    for (int l = 0; l < shape.n_layers; ++l) {
        const std::string prefix = std::string("blk.").append(std::to_string(l)).append(".");
        LayerWeights layer;
        layer.attn_norm = self->add(prefix + "attn_norm.weight", n_embd, 0, 0.0F);
        layer.wq = self->add(prefix + "attn_q.weight", n_embd, n_q, by_input(n_embd));
        layer.wk = self->add(prefix + "attn_k.weight", n_embd, n_kv, by_input(n_embd));
        layer.wv = self->add(prefix + "attn_v.weight", n_embd, n_kv, by_input(n_embd));
        layer.wo = self->add(prefix + "attn_output.weight", n_q, n_embd, residual * by_input(n_q));
        layer.ffn_norm = self->add(prefix + "ffn_norm.weight", n_embd, 0, 0.0F);
        layer.ffn_gate = self->add(prefix + "ffn_gate.weight", n_embd, n_ff, by_input(n_embd));
        layer.ffn_up = self->add(prefix + "ffn_up.weight", n_embd, n_ff, by_input(n_embd));
        layer.ffn_down = self->add(prefix + "ffn_down.weight", n_ff, n_embd, residual * by_input(n_ff));
        w.layers.push_back(layer);
    }
    w.output_norm = self->add("output_norm.weight", n_embd, 0, 0.0F);
    w.output = shape.tied ? w.token_embd : self->add("output.weight", n_embd, shape.n_vocab, kOutputStd);

    self->buffer_ = ggml_backend_alloc_ctx_tensors(self->ctx_, backend);
    if (self->buffer_ == nullptr) { return {ErrorCode::kOutOfMemory, "no memory for the parameters"}; }
    self->initialise(1);
    return self;
}

Parameters::~Parameters() {
    if (buffer_ != nullptr) { ggml_backend_buffer_free(buffer_); }
    if (ctx_ != nullptr) { ggml_free(ctx_); }
}

void Parameters::initialise(uint64_t seed) {
    uint64_t index = 0;
    for (Parameter & p : list_) {
        corpus::Random random(corpus::SeedSpace::kTraining, seed, index++);
        for (ggml_tensor * t : {p.gradient, p.m, p.v}) { fill(t, 0.0F); }
        if (p.init_std == 0.0F) {
            fill(p.value, 1.0F);
            continue;
        }
        float * out = values(p.value);
        for (int64_t i = 0; i < ggml_nelements(p.value); ++i) {
            // Box and Muller: a normal number from two uniform ones
            const double radius = std::sqrt(-2.0 * std::log(1.0 - random.uniform()));
            out[i] = static_cast<float>(radius * std::cos(2.0 * std::numbers::pi * random.uniform())) * p.init_std;
        }
    }
}

void Parameters::zero_gradients() {
    for (Parameter & p : list_) { fill(p.gradient, 0.0F); }
}

int64_t Parameters::n_params() const {
    int64_t n = 0;
    for (const Parameter & p : list_) { n += ggml_nelements(p.value); }
    return n;
}

}  // namespace pith::train
