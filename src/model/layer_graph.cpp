// layer_graph.cpp - one transformer layer as ggml operations. Stage: model.
// Order of operations as libllama's, so that f32 logits agree to rounding.
#include "model/layer_graph.h"

#include <ggml.h>

#include <cmath>

namespace pith {
namespace {

// libllama keeps the sum of the chosen experts' weights above the smallest normal f16, so that the division stays finite.
constexpr float kMinExpertWeightSum = 6.103515625e-5F;

ggml_tensor * rms_norm(ggml_context * ctx, ggml_tensor * x, ggml_tensor * weight, float eps) {
    return ggml_mul(ctx, ggml_rms_norm(ctx, x, eps), weight);
}

// x [n_in, n]  →  weight·x + lora.scale · b·(a·x).
ggml_tensor * project(ggml_context * ctx, ggml_tensor * weight, const LoraPair & lora, ggml_tensor * x) {
    ggml_tensor * y = ggml_mul_mat(ctx, weight, x);
    if (lora.a == nullptr) { return y; }
    ggml_tensor * added = ggml_mul_mat(ctx, lora.b, ggml_mul_mat(ctx, lora.a, x));
    return ggml_add(ctx, y, ggml_scale(ctx, added, lora.scale));
}

ggml_tensor * add_bias(ggml_context * ctx, ggml_tensor * x, ggml_tensor * bias) {
    return bias == nullptr ? x : ggml_add(ctx, x, bias);
}

// x [D, n]  →  weight·x + bias, as heads [head_dim, n_heads, n].
ggml_tensor * project_heads(ggml_context * ctx, ggml_tensor * weight, const LoraPair & lora, ggml_tensor * bias,
                            ggml_tensor * x, int head_dim, int n_heads) {
    ggml_tensor * y = add_bias(ctx, project(ctx, weight, lora, x), bias);
    return ggml_reshape_3d(ctx, y, head_dim, n_heads, x->ne[1]);
}

ggml_tensor * rope(ggml_context * ctx, const Hparams & hp, ggml_tensor * x, ggml_tensor * positions,
                   ggml_tensor * freq_factors) {
    const int type = hp.form.rope == RopeKind::kHalves ? GGML_ROPE_TYPE_NEOX : GGML_ROPE_TYPE_NORMAL;
    return ggml_rope_ext(ctx, x, positions, freq_factors, hp.n_rot, type, hp.rope_n_ctx_orig, hp.rope_base, hp.rope_freq_scale,
                         hp.yarn_ext_factor, hp.yarn_attn_factor, hp.yarn_beta_fast, hp.yarn_beta_slow);
}

// x [D, n]  →  [D, n]: down · (silu(gate·x) ⊙ up·x), with biases where there are any.
ggml_tensor * dense_ffn(ggml_context * ctx, const LayerWeights & w, ggml_tensor * x) {
    ggml_tensor * gate = add_bias(ctx, ggml_mul_mat(ctx, w.ffn_gate, x), w.ffn_gate_bias);
    ggml_tensor * up = add_bias(ctx, ggml_mul_mat(ctx, w.ffn_up, x), w.ffn_up_bias);
    return add_bias(ctx, ggml_mul_mat(ctx, w.ffn_down, ggml_swiglu_split(ctx, gate, up)), w.ffn_down_bias);
}

// Router weights of the chosen experts: softmax over all experts, the best n_experts_used, renormalised to sum 1.
// logits [n_experts, n], chosen i32 [used, n]  →  [1, used, n].
ggml_tensor * expert_weights(ggml_context * ctx, const Hparams & hp, ggml_tensor * probabilities, ggml_tensor * chosen) {
    const int64_t n = probabilities->ne[1];
    ggml_tensor * weights = ggml_get_rows(ctx, ggml_reshape_3d(ctx, probabilities, 1, hp.n_experts, n), chosen);
    if (hp.norm_expert_weights) {
        weights = ggml_reshape_2d(ctx, weights, hp.n_experts_used, n);
        ggml_tensor * sum = ggml_clamp(ctx, ggml_sum_rows(ctx, weights), kMinExpertWeightSum, INFINITY);
        weights = ggml_reshape_3d(ctx, ggml_div(ctx, weights, sum), 1, hp.n_experts_used, n);
    }
    return weights;
}

// x [D, n]  →  [D, n]: the chosen experts' outputs, weighted by the router.
ggml_tensor * moe_ffn(ggml_context * ctx, ggml_cgraph * graph, const Hparams & hp, const LayerWeights & w, ggml_tensor * x) {
    const int64_t n_embd = x->ne[0];
    const int64_t n = x->ne[1];
    ggml_tensor * probabilities = ggml_soft_max(ctx, ggml_mul_mat(ctx, w.router, x));  // [n_experts, n]
    ggml_tensor * chosen = ggml_argsort_top_k(ctx, probabilities, hp.n_experts_used);  // i32 [used, n]
    ggml_tensor * weights = expert_weights(ctx, hp, probabilities, chosen);            // [1, used, n]
    ggml_tensor * rows = ggml_reshape_3d(ctx, x, n_embd, 1, n);
    ggml_tensor * gate = ggml_mul_mat_id(ctx, w.gate_experts, rows, chosen);                                 // [n_ff, used, n]
    ggml_tensor * up = ggml_mul_mat_id(ctx, w.up_experts, rows, chosen);                                     // [n_ff, used, n]
    ggml_tensor * outputs = ggml_mul_mat_id(ctx, w.down_experts, ggml_swiglu_split(ctx, gate, up), chosen);  // [D, used, n]
    outputs = ggml_mul(ctx, outputs, weights);
    if (graph != nullptr) { ggml_build_forward_expand(graph, outputs); }

    ggml_tensor * sum = nullptr;
    for (int e = 0; e < hp.n_experts_used; ++e) {
        ggml_tensor * one = ggml_view_2d(ctx, outputs, n_embd, n, outputs->nb[2], static_cast<size_t>(e) * outputs->nb[1]);
        sum = sum == nullptr ? one : ggml_add(ctx, sum, one);
    }
    return hp.n_experts_used == 1 ? ggml_cont(ctx, sum) : sum;  // one expert: avoid handing out a strided view
}

}  // namespace

ggml_tensor * build_rope(ggml_context * ctx, const Hparams & hparams, const Weights & weights, ggml_tensor * x,
                         ggml_tensor * positions) {
    return rope(ctx, hparams, x, positions, weights.layers.front().rope_freqs);
}

ggml_tensor * build_attention_input(ggml_context * ctx, const Hparams & hparams, const Weights & weights, int layer,
                                    ggml_tensor * hidden) {
    return rms_norm(ctx, hidden, weights.layers[static_cast<size_t>(layer)].attn_norm, hparams.rms_eps);
}

ggml_tensor * build_output_projection(ggml_context * ctx, const Weights & weights, int layer, ggml_tensor * attended) {
    const LayerWeights & w = weights.layers[static_cast<size_t>(layer)];
    return project(ctx, w.wo, w.lora_o, attended);
}

ggml_tensor * build_embedding(ggml_context * ctx, const Weights & weights, ggml_tensor * tokens) {
    return ggml_get_rows(ctx, weights.token_embd, tokens);
}

ggml_tensor * build_layer(ggml_context * ctx, ggml_cgraph * graph, const Hparams & hparams, const Weights & weights, int layer,
                          ggml_tensor * hidden, ggml_tensor * positions, const AttentionFn & attention, ggml_tensor * keep_rows,
                          const RopeTap & tap, const InputTap & input_tap) {
    const LayerWeights & w = weights.layers[static_cast<size_t>(layer)];

    ggml_tensor * x = build_attention_input(ctx, hparams, weights, layer, hidden);
    if (input_tap) { input_tap(x); }
    ggml_tensor * q = project_heads(ctx, w.wq, w.lora_q, w.bq, x, hparams.head_dim, hparams.n_heads);
    ggml_tensor * k = project_heads(ctx, w.wk, w.lora_k, w.bk, x, hparams.head_dim, hparams.n_kv_heads);
    ggml_tensor * v = project_heads(ctx, w.wv, w.lora_v, w.bv, x, hparams.head_dim_v, hparams.n_kv_heads);
    if (w.q_norm != nullptr) { q = rms_norm(ctx, q, w.q_norm, hparams.rms_eps); }
    if (w.k_norm != nullptr) { k = rms_norm(ctx, k, w.k_norm, hparams.rms_eps); }
    if (tap) { tap(q, k); }
    q = rope(ctx, hparams, q, positions, w.rope_freqs);
    k = rope(ctx, hparams, k, positions, w.rope_freqs);

    ggml_tensor * attended = attention(ctx, graph, layer, q, k, v);  // [dv·H, n]
    if (keep_rows != nullptr) {
        attended = ggml_get_rows(ctx, attended, keep_rows);
        hidden = ggml_get_rows(ctx, hidden, keep_rows);
    }
    ggml_tensor * out = add_bias(ctx, build_output_projection(ctx, weights, layer, attended), w.bo);
    hidden = ggml_add(ctx, out, hidden);

    x = rms_norm(ctx, hidden, w.ffn_norm, hparams.rms_eps);
    ggml_tensor * ffn = w.router == nullptr ? dense_ffn(ctx, w, x) : moe_ffn(ctx, graph, hparams, w, x);
    return ggml_add(ctx, ffn, hidden);
}

ggml_tensor * build_head(ggml_context * ctx, const Hparams & hparams, const Weights & weights, ggml_tensor * hidden) {
    return ggml_mul_mat(ctx, weights.output, rms_norm(ctx, hidden, weights.output_norm, hparams.rms_eps));
}

}  // namespace pith
