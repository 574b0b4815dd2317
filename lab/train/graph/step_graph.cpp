// step_graph.cpp - loss and gradients of one batch shape. Stage: train.
#include "train/graph/step_graph.h"

#include <ggml-alloc.h>
#include <ggml-backend.h>
#include <ggml.h>

#include <algorithm>
#include <ctime>
#include <map>
#include <new>

#include "core/guarded.h"
#include "core/shape.h"
#include "device/available_memory.h"
#include "model/layer_graph.h"
#include "train/kernels/gemm_bf16.h"
#include "train/kernels/row_ops.h"

namespace pith::train {
namespace {

constexpr size_t kMaxNodes = 16384;

// Without memory for its own books ggml aborts or writes to nowhere: room for them is looked for first. That is more than they
// take, of a graph of kMaxNodes; a run also has what each thread keeps for the kernels.
constexpr size_t kRoomToBuild = size_t{32} << 20U;
constexpr size_t kRoomToRun = size_t{16} << 20U;

Status internal(const std::string & what) {
    return {ErrorCode::kInternal, what};
}

}  // namespace

double Batch::weight_sum() const {
    double sum = 0;
    for (const float w : weights) { sum += w; }
    return sum;
}

void GateCounts::add(const GateCounts & other) {
    kept.resize(std::max(kept.size(), other.kept.size()));
    probability.resize(kept.size());
    for (size_t i = 0; i < other.kept.size(); ++i) {
        kept[i] += other.kept[i];
        probability[i] += other.probability[i];
    }
    n_flags += other.n_flags;
    eviction_loss += other.eviction_loss;
}

Status check_trainable(const StepModel & model) {
    if (model.hparams->n_experts > 0) {
        return {ErrorCode::kUnsupported, "the model has experts (" + model.hparams->arch_name +
                                             "): ggml has no gradient through their choice; train on a dense model"};
    }
    if (!model.hparams->governs_all()) {
        return {ErrorCode::kUnsupported, "the model (" + model.hparams->arch_name + ") has " + model.hparams->ungoverned() +
                                             ", which training does not do yet"};
    }
    const auto check_one = [](const ggml_tensor * t) -> Status {
        if (t == nullptr || t->type == GGML_TYPE_F32 || ggml_get_type_traits(t->type)->to_float != nullptr) { return {}; }
        return {ErrorCode::kUnsupported, std::string("tensor '") + t->name + "' of type " + ggml_type_name(t->type) +
                                             " cannot be dequantised, which training needs"};
    };
    PITH_RETURN_IF_ERROR(check_one(model.weights->output));
    for (const LayerWeights & w : model.weights->layers) {
        for (const ggml_tensor * t : {w.wq, w.wk, w.wv, w.wo, w.ffn_gate, w.ffn_up, w.ffn_down}) {
            PITH_RETURN_IF_ERROR(check_one(t));
        }
    }
    return {};
}

// Plain attention that ggml can differentiate: heads and sequences are one dimension, K and V repeated for their group.
// q [d, H, n], k and v [d, K, n], n = T·B  →  [d·H, n]
ggml_tensor * StepGraph::attention(ggml_context * ctx, ggml_tensor * q, ggml_tensor * k, ggml_tensor * v,
                                   const AttentionForm & form) {
    const int64_t d_v = v->ne[0];
    const int64_t n_heads = q->ne[1];
    const int64_t n_kv = k->ne[1];
    const int64_t group = n_heads / n_kv;
    const int64_t n_tokens = shape_.n_tokens;
    const int64_t n_seq = shape_.n_sequences;

    // [d, heads, T·B] → [d, T, heads·B]
    const auto by_head = [&](ggml_tensor * x, int64_t heads) {
        const int64_t size = x->ne[0];
        x = ggml_reshape_4d(ctx, x, size, heads, n_tokens, n_seq);
        return ggml_reshape_3d(ctx, ggml_cont(ctx, ggml_permute(ctx, x, 0, 2, 1, 3)), size, n_tokens, heads * n_seq);
    };
    const auto repeat_for_group = [&](ggml_tensor * x) {
        if (group == 1) { return x; }
        const int64_t ne0 = x->ne[0];
        const int64_t ne1 = x->ne[1];
        x = ggml_repeat_4d(ctx, ggml_reshape_4d(ctx, x, ne0, ne1, 1, n_kv * n_seq), ne0, ne1, group, n_kv * n_seq);
        return ggml_reshape_3d(ctx, x, ne0, ne1, n_heads * n_seq);
    };
    q = by_head(q, n_heads);
    k = repeat_for_group(by_head(k, n_kv));
    ggml_tensor * vt = ggml_cont(ctx, ggml_permute(ctx, by_head(v, n_kv), 1, 0, 2, 3));  // [T, d, K·B]
    vt = repeat_for_group(vt);

    ggml_tensor * scores = ggml_mul_mat(ctx, k, q);  // [T, T, H·B]
    ggml_tensor * flags = nullptr;
    if (form.flags != nullptr) {
        flags = ggml_permute(ctx, ggml_reshape_3d(ctx, form.flags, n_kv, n_tokens, n_seq), 1, 0, 2, 3);    // [T, K, B]
        flags = repeat_for_group(ggml_reshape_3d(ctx, ggml_cont(ctx, flags), n_tokens, 1, n_kv * n_seq));  // [T, 1, H·B]
        scores = ggml_add(ctx, scores, flags);
    }
    ggml_tensor * p = ggml_soft_max_ext(ctx, scores, nullptr, form.scale, 0.0F);
    ggml_tensor * out = ggml_mul_mat(ctx, vt, p);  // [d, T, H·B]
    ops_.add_attention({q, k, vt, p, out, flags, form.n_recent, form.global});

    out = ggml_permute(ctx, ggml_reshape_4d(ctx, out, d_v, n_tokens, n_heads, n_seq), 0, 2, 1, 3);
    return ggml_reshape_2d(ctx, ggml_cont(ctx, out), d_v * n_heads, n_tokens * n_seq);
}

// Flags [K, n] of `layer` from its gate's input x [D, n].
ggml_tensor * StepGraph::gate(int layer, ggml_tensor * x) {
    const GateAttentionFn attend = [this](ggml_context * ctx, ggml_tensor * q, ggml_tensor * k, ggml_tensor * v) {
        return attention(ctx, q, k, v, {nullptr, 1, &gate_step_, usual_attention_scale(static_cast<int>(q->ne[0]))});
    };
    const TrainedGates & gates = *model_.gates;
    ggml_tensor * logits = build_gate(ctx_, gates.config, gates.weights.layers[static_cast<size_t>(layer)], x, attend);
    ggml_tensor * flags = ggml_silu(ctx_, logits);
    ops_.add_gate(flags, &gate_step_, layer - gates.config.first_layer);
    return flags;
}

ggml_tensor * StepGraph::build_loss() {
    const Weights & weights = *model_.weights;
    const Hparams & hparams = *model_.hparams;
    tokens_ = ggml_new_tensor_1d(ctx_, GGML_TYPE_I32, shape_.size());
    positions_ = ggml_new_tensor_1d(ctx_, GGML_TYPE_I32, shape_.size());
    for (ggml_tensor * input : {tokens_, positions_}) {
        ggml_set_input(input);
        ggml_set_output(input);  // keeps its memory for itself: the positions are written once
    }
    std::vector<ggml_tensor *> flags(static_cast<size_t>(hparams.n_layers) + 1, nullptr);  // of each layer
    const AttentionFn attend = [&](ggml_context * ctx, ggml_cgraph *, int layer, ggml_tensor * q, ggml_tensor * k,
                                   ggml_tensor * v) {
        const int n_recent = model_.gates == nullptr ? 1 : model_.gates->config.n_recent;
        return attention(ctx, q, k, v, {flags[static_cast<size_t>(layer)], n_recent, nullptr, hparams.attention_scale});
    };
    ggml_tensor * hidden = build_embedding(ctx_, hparams, weights, tokens_);
    for (int l = 0; l < hparams.n_layers; ++l) {
        const InputTap tap = [&](ggml_tensor * x) {
            for (int of = l; of <= l + 1 && of < hparams.n_layers; ++of) {  // this layer's gate, or the next one's
                const GateConfig & config = model_.gates->config;
                if (config.has_gate(of) && config.input_layer(of) == l) { flags[static_cast<size_t>(of)] = gate(of, x); }
            }
        };
        hidden = build_layer(ctx_, nullptr, hparams, weights, l, hidden, positions_, attend, nullptr, {},
                             model_.gates == nullptr ? InputTap() : tap);
    }
    ggml_tensor * logits = build_head(ctx_, hparams, weights, hidden);
    // Stands for the labels until the loss is exchanged (FastOps): it is never allocated.
    ggml_tensor * labels = ggml_new_tensor_2d(ctx_, GGML_TYPE_F32, logits->ne[0], logits->ne[1]);
    ggml_tensor * loss = ggml_cross_entropy_loss(ctx_, logits, labels);
    ggml_set_loss(loss);
    // The one operation is a product alone: a bias or a scale of the logits comes between it and the loss.
    const bool is_product = logits->op == GGML_OP_MUL_MAT;
    if (is_product && (weights.output->flags & GGML_TENSOR_FLAG_PARAM) == 0) { ops_.add_frozen_head(logits, loss); }
    return loss;
}

Status StepGraph::build() {
    const size_t meta_bytes = 2 * kMaxNodes * ggml_tensor_overhead() + 3 * ggml_graph_overhead_custom(kMaxNodes, true);
    meta_.reset(new (std::nothrow) uint8_t[meta_bytes]);
    if (meta_ == nullptr || !has_room(kRoomToBuild)) { return no_memory(); }
    ctx_ = ggml_init({meta_bytes, meta_.get(), true});
    if (ctx_ == nullptr) { return no_memory(); }
    ggml_tensor * loss = build_loss();
    ggml_cgraph * full = ggml_new_graph_custom(ctx_, kMaxNodes, backward_);
    ggml_build_forward_expand(full, loss);
    if (backward_) {
        ggml_build_backward_expand(ctx_, full, nullptr);
        for (const Parameter & p : model_.parameters->list()) {
            ggml_tensor * gradient = ggml_graph_get_grad(full, p.value);
            if (gradient == nullptr) { return internal("ggml made no gradient for " + p.name); }
            gradients_.push_back(gradient);
        }
    }
    ops_.exchange(ctx_, full);
    // The exchanged nodes need less: a graph of what is still wanted.
    graph_ = ggml_new_graph_custom(ctx_, kMaxNodes, false);
    ggml_set_output(loss);
    ggml_build_forward_expand(graph_, loss);
    for (ggml_tensor * g : gradients_) {
        ggml_set_output(g);
        ggml_build_forward_expand(graph_, g);
    }
    allocator_ = ggml_gallocr_new(ggml_backend_get_default_buffer_type(backend_));
    if (!ggml_gallocr_alloc_graph(allocator_, graph_)) { return no_memory(); }
    auto * positions = static_cast<int32_t *>(positions_->data);
    for (int i = 0; positions != nullptr && i < shape_.size(); ++i) {
        positions[i] = i % shape_.n_tokens;
    }  // no layer rotates: null
    const auto n = static_cast<size_t>(shape_.size());
    loss_.nll.assign(n, 0.0F);
    loss_.hit.assign(n, 0);
    return {};
}

Result<std::unique_ptr<StepGraph>> StepGraph::make(const StepModel & model, const BatchShape & shape, bool backward, bool bf16,
                                                   ggml_backend_t backend) {
    if (shape.n_tokens < 1 || shape.n_sequences < 1) {
        return {ErrorCode::kInvalidArgument, "a batch of " + std::to_string(shape.n_sequences) + " x " +
                                                 std::to_string(shape.n_tokens) + " tokens: both must be positive"};
    }
    std::unique_ptr<StepGraph> self(new StepGraph);
    self->model_ = model;
    self->shape_ = shape;
    self->backward_ = backward;
    self->backend_ = backend;
    self->ops_.use_bf16(bf16 && has_bf16_gemm());
    if (model.gates != nullptr) {
        GateStep & step = self->gate_step_;
        step.config = model.gates->config;
        step.beta = model.gates->loss.beta;
        step.n_kv_heads = model.hparams->n_kv_heads;
        step.n_tokens = shape.n_tokens;
        step.n_gated.assign(static_cast<size_t>(shape.n_sequences), shape.n_tokens);
        step.layers.resize(static_cast<size_t>(model.hparams->n_layers - step.config.first_layer));
    }
    PITH_RETURN_IF_ERROR(self->build());
    return self;
}

StepGraph::~StepGraph() {
    if (allocator_ != nullptr) { ggml_gallocr_free(allocator_); }
    if (ctx_ != nullptr) { ggml_free(ctx_); }
}

size_t StepGraph::size_bytes() const {
    return ggml_gallocr_get_buffer_size(allocator_, 0);
}

Status StepGraph::set_gated(const Batch & batch, float eviction_scale) {
    if (model_.gates == nullptr) { return {}; }
    gate_step_.scale = eviction_scale;
    const auto n_seq = static_cast<size_t>(shape_.n_sequences);
    gate_step_.n_gated.assign(n_seq, shape_.n_tokens);
    if (batch.n_gated.empty()) { return {}; }
    const auto outside = [&](int n) { return n < 0 || n > shape_.n_tokens; };
    if (batch.n_gated.size() != n_seq || std::any_of(batch.n_gated.begin(), batch.n_gated.end(), outside)) {
        return {ErrorCode::kInvalidArgument, "the gated tokens of a batch do not fit its " + std::to_string(n_seq) +
                                                 " sequences of " + std::to_string(shape_.n_tokens)};
    }
    gate_step_.n_gated = batch.n_gated;
    return {};
}

GateCounts StepGraph::gate_counts() const {
    GateCounts counts;
    if (model_.gates == nullptr) { return counts; }
    for (const GateStep::Layer & layer : gate_step_.layers) {
        counts.kept.push_back(layer.kept);
        double sum = 0;
        for (size_t b = 0; b < layer.mean.size(); ++b) { sum += layer.mean[b] * gate_step_.n_gated[b] * gate_step_.n_kv_heads; }
        counts.probability.push_back(sum);
    }
    counts.n_flags = gate_step_.n_flags();
    counts.eviction_loss = gate_step_.eviction_loss();
    return counts;
}

Status StepGraph::no_memory() const {
    return {ErrorCode::kOutOfMemory, "no memory for a batch of " + std::to_string(shape_.n_sequences) + " x " +
                                         std::to_string(shape_.n_tokens) + " tokens: make it smaller"};
}

Result<BatchLoss> StepGraph::run(const Batch & batch, float scale, float eviction_scale) {
    auto loss = guarded([&] { return run_open(batch, scale, eviction_scale); });
    if (loss.status().code() == ErrorCode::kOutOfMemory) { return no_memory(); }
    return loss;
}

Result<BatchLoss> StepGraph::run_open(const Batch & batch, float scale, float eviction_scale) {
    const auto n = static_cast<size_t>(shape_.size());
    if (batch.tokens.size() != n || batch.targets.size() != n || batch.weights.size() != n) {
        return {ErrorCode::kInvalidArgument,
                "a batch of " + std::to_string(batch.tokens.size()) + " tokens was given to a graph of " + std::to_string(n)};
    }
    const int n_vocab = model_.hparams->n_vocab;
    const auto outside = [&](int32_t t) { return t < 0 || t >= n_vocab; };
    if (std::any_of(batch.tokens.begin(), batch.tokens.end(), outside) ||
        std::any_of(batch.targets.begin(), batch.targets.end(), outside)) {
        return {ErrorCode::kInvalidArgument, "a token of the batch lies outside the vocabulary of " + std::to_string(n_vocab)};
    }
    std::copy(batch.tokens.begin(), batch.tokens.end(), static_cast<int32_t *>(tokens_->data));
    loss_.targets = batch.targets;
    loss_.weights = batch.weights;
    loss_.scale = scale;
    PITH_RETURN_IF_ERROR(set_gated(batch, eviction_scale));
    if (!has_room(kRoomToRun)) { return no_memory(); }
    ops_.begin_run();
    const ggml_status status = ggml_backend_graph_compute(backend_, graph_);
    if (status == GGML_STATUS_ALLOC_FAILED || ops_.failed()) { return no_memory(); }
    if (status != GGML_STATUS_SUCCESS) { return internal("ggml could not run the training graph"); }
    BatchLoss out;
    out.nll = loss_.nll;
    out.hit = loss_.hit;
    for (size_t i = 0; i < n; ++i) { out.nll_sum += static_cast<double>(loss_.weights[i]) * loss_.nll[i]; }
    out.weight_sum = batch.weight_sum();
    out.gates = gate_counts();
    return out;
}

void StepGraph::add_gradients() {
    for (size_t i = 0; i < gradients_.size(); ++i) {
        ggml_tensor * sum = model_.parameters->list()[i].gradient;
        add_to(values(sum), values(gradients_[i]), ggml_nelements(sum));
    }
}

std::vector<std::pair<std::string, double>> StepGraph::profile() {
    std::map<std::string, double> seconds;
    for (int i = 0; i < ggml_graph_n_nodes(graph_); ++i) {
        ggml_tensor * node = ggml_graph_node(graph_, i);
        ggml_cgraph * one = ggml_new_graph_custom(ctx_, 1, false);
        ggml_graph_add_node(one, node);
        const std::clock_t start = std::clock();
        ggml_backend_graph_compute(backend_, one);
        std::string key = ggml_op_name(node->op);
        for (int dim = 0; dim < 3; ++dim) { key.append(" ").append(std::to_string(node->ne[dim])); }
        if (node->op == GGML_OP_CUSTOM) { key.append(" of ").append(ggml_get_name(node)); }
        seconds[key] += static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
    }
    return {seconds.begin(), seconds.end()};
}

}  // namespace pith::train
