// layer_graph.cpp - one transformer layer as ggml operations. Stage: model.
// Order of operations as libllama's, so that f32 logits agree to rounding.
#include "model/layer_graph.h"

#include <ggml.h>

#include <cmath>

namespace pith {
namespace {

// libllama keeps the sum of the chosen experts' weights above the smallest normal f16, so that the division stays finite.
constexpr float kMinExpertWeightSum = 6.103515625e-5F;

// What of gpt-oss's feed-forward no key says.
constexpr float kClampedAlpha = 1.702F;
constexpr float kClampedLimit = 7.0F;

// x itself where there is no norm.
ggml_tensor * rms_norm(ggml_context * ctx, ggml_tensor * x, ggml_tensor * weight, float eps) {
    return weight == nullptr ? x : ggml_mul(ctx, ggml_rms_norm(ctx, x, eps), weight);
}

// The same by the model's kind of norm, of hidden states.
ggml_tensor * norm(ggml_context * ctx, const Hparams & hp, ggml_tensor * x, ggml_tensor * weight) {
    if (weight == nullptr || hp.form.norm == NormKind::kRms) { return rms_norm(ctx, x, weight, hp.norm_eps); }
    return ggml_mul(ctx, ggml_norm(ctx, x, hp.norm_eps), weight);
}

ggml_tensor * scaled(ggml_context * ctx, ggml_tensor * x, float scale) {
    return scale == 1.0F ? x : ggml_scale(ctx, x, scale);
}

// x [n_in, n]  →  weight·x + lora.scale · b·(a·x).
ggml_tensor * project(ggml_context * ctx, ggml_tensor * weight, const LoraPair & lora, ggml_tensor * x, MulMatFn mul_mat) {
    ggml_tensor * y = mul_mat(ctx, weight, x);
    if (lora.a == nullptr) { return y; }
    ggml_tensor * added = mul_mat(ctx, lora.b, mul_mat(ctx, lora.a, x));
    return ggml_add(ctx, y, ggml_scale(ctx, added, lora.scale));
}

ggml_tensor * add_bias(ggml_context * ctx, ggml_tensor * x, ggml_tensor * bias) {
    return bias == nullptr ? x : ggml_add(ctx, x, bias);
}

// y [head_dim · n_heads, n] as heads [head_dim, n_heads, n], normed where all heads are normed as one or each by itself.
ggml_tensor * as_heads(ggml_context * ctx, const Hparams & hp, ggml_tensor * y, ggml_tensor * norm, int head_dim, int n_heads) {
    if (hp.form.qk_norm == QkNorm::kWhole) { y = rms_norm(ctx, y, norm, hp.norm_eps); }
    y = ggml_reshape_3d(ctx, y, head_dim, n_heads, y->ne[1]);
    const bool by_itself = hp.form.qk_norm == QkNorm::kPerHead || hp.form.qk_norm == QkNorm::kMayBePerHead;
    return by_itself ? rms_norm(ctx, y, norm, hp.norm_eps) : y;
}

enum class Rope {
    kForth,
    kBack,
    kFurther,  // of what has been rotated: its magnitude stays
};

ggml_tensor * rope(ggml_context * ctx, const Hparams & hp, int layer, ggml_tensor * x, ggml_tensor * positions,
                   ggml_tensor * freq_factors, Rope way = Rope::kForth) {
    const LayerHparams & of = hp.layer(layer);
    if (!of.rotates) { return x; }
    const float base = of.rope_base != 0.0F ? of.rope_base : hp.rope_base;
    const float freq_scale = of.rope_scales ? hp.rope_freq_scale : 1.0F;
    const float ext_factor = of.rope_scales ? hp.yarn_ext_factor : 0.0F;
    float attn_factor = of.rope_scales ? hp.yarn_attn_factor : 1.0F;
    const int type = hp.form.rope == RopeKind::kHalves ? GGML_ROPE_TYPE_NEOX : GGML_ROPE_TYPE_NORMAL;
    const float of_yarn = ext_factor == 0.0F ? 1.0F : 1.0F + 0.1F * std::log(1.0F / freq_scale);
    if (way == Rope::kFurther) { attn_factor = 1.0F / of_yarn; }
    if (way == Rope::kBack) {  // ggml's way back turns by the same angles, and multiplies by the same magnitude once more
        const float undone = 1.0F / (attn_factor * of_yarn * of_yarn);
        return ggml_rope_ext_back(ctx, x, positions, freq_factors, hp.n_rot_of(layer), type, hp.rope_n_ctx_orig, base,
                                  freq_scale, ext_factor, undone, hp.yarn_beta_fast, hp.yarn_beta_slow);
    }
    return ggml_rope_ext(ctx, x, positions, freq_factors, hp.n_rot_of(layer), type, hp.rope_n_ctx_orig, base, freq_scale,
                         ext_factor, attn_factor, hp.yarn_beta_fast, hp.yarn_beta_slow);
}

// q [d, H, n], each times its position's temperature.
ggml_tensor * heat(ggml_context * ctx, const Hparams & hp, int layer, ggml_tensor * q, ggml_tensor * positions) {
    if (hp.query_temperature == 0.0F || !hp.layer(layer).heats) { return q; }
    // floor((p + offset) / length) of whole numbers: half a position more keeps rounding off the border.
    const float offset = 0.5F + static_cast<float>(hp.query_temperature_offset);
    const float per_position = 1.0F / static_cast<float>(hp.query_temperature_length);
    ggml_tensor * p = ggml_cast(ctx, positions, GGML_TYPE_F32);
    ggml_tensor * steps = ggml_floor(ctx, ggml_scale_bias(ctx, p, per_position, offset * per_position));
    ggml_tensor * heats = ggml_log(ctx, ggml_scale_bias(ctx, steps, 1.0F, 1.0F));
    heats = ggml_scale_bias(ctx, heats, hp.query_temperature, 1.0F);
    return ggml_mul(ctx, q, ggml_reshape_3d(ctx, heats, 1, 1, heats->ne[0]));
}

ggml_tensor * activate(ggml_context * ctx, Activation kind, ggml_tensor * gate, ggml_tensor * up) {
    switch (kind) {
        case Activation::kGelu:
            return ggml_geglu_split(ctx, gate, up);
        case Activation::kClamped:
            return ggml_swiglu_oai(ctx, gate, up, kClampedAlpha, kClampedLimit);
        case Activation::kSquaredRelu:
            return ggml_sqr(ctx, ggml_relu(ctx, up));
        case Activation::kSilu:
            break;
    }
    return ggml_swiglu_split(ctx, gate, up);
}

// x [D, n]  →  [D, n]: down · (activation of gate·x and up·x), with biases where there are any.
ggml_tensor * dense_ffn(ggml_context * ctx, const Hparams & hp, const LayerWeights & w, ggml_tensor * x, MulMatFn mul_mat) {
    ggml_tensor * gate = w.ffn_gate == nullptr ? nullptr : add_bias(ctx, mul_mat(ctx, w.ffn_gate, x), w.ffn_gate_bias);
    ggml_tensor * up = add_bias(ctx, mul_mat(ctx, w.ffn_up, x), w.ffn_up_bias);
    return add_bias(ctx, mul_mat(ctx, w.ffn_down, activate(ctx, hp.form.activation, gate, up)), w.ffn_down_bias);
}

// Router weights of the chosen experts, of those the router gives to all, made to sum to 1 and scaled where the model says so.
// probabilities [n_experts, n], chosen i32 [used, n]  →  [1, used, n].
ggml_tensor * expert_weights(ggml_context * ctx, const Hparams & hp, ggml_tensor * probabilities, ggml_tensor * chosen) {
    const int64_t n = probabilities->ne[1];
    ggml_tensor * weights = ggml_get_rows(ctx, ggml_reshape_3d(ctx, probabilities, 1, hp.n_experts, n), chosen);
    if (hp.router == Router::kSoftmaxOfBest) {
        weights = ggml_soft_max(ctx, ggml_reshape_2d(ctx, weights, hp.n_experts_used, n));
        return scaled(ctx, ggml_reshape_3d(ctx, weights, 1, hp.n_experts_used, n), hp.expert_weights_scale);
    }
    if (hp.norm_expert_weights) {
        weights = ggml_reshape_2d(ctx, weights, hp.n_experts_used, n);
        ggml_tensor * sum = ggml_clamp(ctx, ggml_sum_rows(ctx, weights), kMinExpertWeightSum, INFINITY);
        weights = ggml_reshape_3d(ctx, ggml_div(ctx, weights, sum), 1, hp.n_experts_used, n);
    }
    return scaled(ctx, weights, hp.expert_weights_scale);
}

// x, router_input [D, n]  →  [D, n]: the chosen experts' outputs, weighted by the router.
ggml_tensor * moe_ffn(ggml_context * ctx, ggml_cgraph * graph, const Hparams & hp, const LayerWeights & w, ggml_tensor * x,
                      ggml_tensor * router_input, MulMatFn mul_mat) {
    const int64_t n_in = hp.n_expert_embd();
    const int64_t n = x->ne[1];
    ggml_tensor * logits = add_bias(ctx, mul_mat(ctx, w.router, router_input), w.router_b);  // [n_experts, n]
    ggml_tensor * probabilities = hp.router == Router::kSigmoid   ? ggml_sigmoid(ctx, logits)
                                  : hp.router == Router::kSoftmax ? ggml_soft_max(ctx, logits)
                                                                  : logits;
    ggml_tensor * chosen = ggml_argsort_top_k(ctx, add_bias(ctx, probabilities, w.router_bias), hp.n_experts_used);
    ggml_tensor * weights = expert_weights(ctx, hp, probabilities, chosen);  // [1, used, n]
    ggml_tensor * rows = ggml_reshape_3d(ctx, w.latent_in == nullptr ? x : mul_mat(ctx, w.latent_in, x), n_in, 1, n);
    if (hp.form.weighs_inputs) { rows = ggml_mul(ctx, ggml_repeat_4d(ctx, rows, n_in, hp.n_experts_used, n, 1), weights); }
    const auto of_experts = [&](ggml_tensor * weight, ggml_tensor * bias, ggml_tensor * in) {
        ggml_tensor * y = mul_mat.of_experts(ctx, weight, in, chosen);
        return bias == nullptr ? y : ggml_add_id(ctx, y, bias, chosen);
    };
    ggml_tensor * gate = nullptr;  // [n_ff, used, n]
    ggml_tensor * up = nullptr;    // [n_ff, used, n]
    if (w.gate_up_experts != nullptr) {
        ggml_tensor * both = of_experts(w.gate_up_experts, nullptr, rows);  // [2·n_ff, used, n]
        const auto half = [&](size_t i) {
            return ggml_view_3d(ctx, both, both->ne[0] / 2, both->ne[1], both->ne[2], both->nb[1], both->nb[2],
                                i * both->nb[1] / 2);
        };
        gate = half(0);
        up = half(1);
    } else {
        if (w.gate_experts != nullptr) { gate = of_experts(w.gate_experts, w.gate_experts_b, rows); }
        up = of_experts(w.up_experts, w.up_experts_b, rows);
    }
    ggml_tensor * outputs =
        of_experts(w.down_experts, w.down_experts_b, activate(ctx, hp.form.activation, gate, up));  // [n_in, used, n]
    if (w.down_experts_scale != nullptr) {
        ggml_tensor * scales = ggml_reshape_3d(ctx, w.down_experts_scale, 1, hp.n_experts, 1);
        scales = ggml_get_rows(ctx, ggml_repeat_4d(ctx, scales, 1, hp.n_experts, n, 1), chosen);  // [1, used, n]
        outputs = ggml_mul(ctx, outputs, scales);
    }
    if (!hp.form.weighs_inputs) { outputs = ggml_mul(ctx, outputs, weights); }
    if (graph != nullptr) { ggml_build_forward_expand(graph, outputs); }

    ggml_tensor * sum = nullptr;
    for (int e = 0; e < hp.n_experts_used; ++e) {
        ggml_tensor * one = ggml_view_2d(ctx, outputs, n_in, n, outputs->nb[2], static_cast<size_t>(e) * outputs->nb[1]);
        sum = sum == nullptr ? one : ggml_add(ctx, sum, one);
    }
    if (hp.n_experts_used == 1) { sum = ggml_cont(ctx, sum); }  // avoid handing out a strided view
    if (w.latent_out != nullptr) { sum = mul_mat(ctx, w.latent_out, sum); }
    if (w.shared_up == nullptr) { return sum; }
    ggml_tensor * shared_gate = w.shared_gate == nullptr ? nullptr : mul_mat(ctx, w.shared_gate, x);
    ggml_tensor * shared = activate(ctx, hp.form.activation, shared_gate, mul_mat(ctx, w.shared_up, x));
    shared = mul_mat(ctx, w.shared_down, shared);
    if (w.shared_weight != nullptr) { shared = ggml_mul(ctx, shared, ggml_sigmoid(ctx, mul_mat(ctx, w.shared_weight, x))); }
    return ggml_add(ctx, sum, shared);
}

// hidden [D, n]  →  [D, n]: the dense feed-forward and the experts beside it, each between norms of its own.
ggml_tensor * dense_and_moe(ggml_context * ctx, ggml_cgraph * graph, const Hparams & hp, const LayerWeights & w,
                            ggml_tensor * hidden, MulMatFn mul_mat) {
    ggml_tensor * dense = dense_ffn(ctx, hp, w, norm(ctx, hp, hidden, w.ffn_norm), mul_mat);
    ggml_tensor * for_router =
        ggml_scale(ctx, ggml_rms_norm(ctx, hidden, hp.norm_eps), 1.0F / std::sqrt(static_cast<float>(hp.n_embd)));
    for_router = ggml_mul(ctx, for_router, w.router_scale);
    ggml_tensor * routed = moe_ffn(ctx, graph, hp, w, norm(ctx, hp, hidden, w.experts_norm), for_router, mul_mat);
    return ggml_add(ctx, norm(ctx, hp, dense, w.dense_post_norm), norm(ctx, hp, routed, w.experts_post_norm));
}

// q [2·d·H, n], of each head its query and its gate  →  q [d·H, n]; the gates, same shape.
ggml_tensor * take_gate(ggml_context * ctx, const Hparams & hp, ggml_tensor *& q) {
    const int64_t d = hp.head_dim;
    const int64_t n = q->ne[1];
    const size_t of_head = static_cast<size_t>(2 * d) * ggml_element_size(q);
    const auto half = [&](int64_t i) {
        ggml_tensor * heads = ggml_view_3d(ctx, q, d, hp.n_heads, n, of_head, q->nb[1], static_cast<size_t>(i) * of_head / 2);
        return ggml_cont_2d(ctx, heads, d * hp.n_heads, n);
    };
    ggml_tensor * gates = half(1);
    q = half(0);
    return gates;
}

// x [D, n], the layer's normalised input  →  [dv·H, n].
ggml_tensor * attend(ggml_context * ctx, ggml_cgraph * graph, const Hparams & hparams, const LayerWeights & w, int layer,
                     ggml_tensor * x, ggml_tensor * positions, const AttentionFn & attention, const RopeTap & tap,
                     MulMatFn mul_mat) {
    const float eps = hparams.norm_eps;
    ggml_tensor * factors = w.rope_freqs_there != nullptr ? w.rope_freqs_there : w.rope_freqs;
    if (!hparams.layer(layer).has_keys()) {
        ggml_tensor * query = add_bias(ctx, project(ctx, w.wq, w.lora_q, x, mul_mat), w.bq);
        query = as_heads(ctx, hparams, query, w.q_norm, hparams.head_dim_of(layer), hparams.n_heads);
        query = rope(ctx, hparams, layer, query, positions, factors);
        return attention(ctx, graph, layer, query, nullptr, nullptr);
    }
    ggml_tensor * gate = nullptr;
    ggml_tensor * q = add_bias(ctx, project(ctx, w.wq, w.lora_q, x, mul_mat), w.bq);
    ggml_tensor * k = add_bias(ctx, project(ctx, w.wk, w.lora_k, x, mul_mat), w.bk);
    ggml_tensor * v = w.wv == nullptr ? k : add_bias(ctx, project(ctx, w.wv, w.lora_v, x, mul_mat), w.bv);
    const int n_kv_heads = hparams.n_kv_heads_of(layer);
    if (hparams.form.output_gate) { gate = take_gate(ctx, hparams, q); }
    q = as_heads(ctx, hparams, q, w.q_norm, hparams.head_dim_of(layer), hparams.n_heads);
    k = as_heads(ctx, hparams, k, w.k_norm, hparams.head_dim_of(layer), n_kv_heads);
    v = ggml_reshape_3d(ctx, v, hparams.head_dim_v_of(layer), n_kv_heads, v->ne[1]);
    if (hparams.form.value_norm) { v = ggml_rms_norm(ctx, v, eps); }
    const bool norms_rotated = hparams.form.qk_norm == QkNorm::kPerHeadRotated;
    if (tap && !norms_rotated) { tap(q, k); }
    ggml_tensor * unrotated = q;
    q = rope(ctx, hparams, layer, q, positions, factors);
    k = rope(ctx, hparams, layer, k, positions, factors);
    if (norms_rotated) {
        q = rms_norm(ctx, q, w.q_norm, eps);
        k = rms_norm(ctx, k, w.k_norm, eps);
        // Rotated or not, a query is divided by the same root: what is left to do behind its rotation is to weigh it.
        if (tap) { tap(ggml_rms_norm(ctx, unrotated, eps), k); }
    }
    if (hparams.form.qk_norm == QkNorm::kPlainRotated && hparams.layer(layer).rotates) {
        q = ggml_rms_norm(ctx, q, eps);
        k = ggml_rms_norm(ctx, k, eps);
    }
    q = heat(ctx, hparams, layer, q, positions);

    ggml_tensor * attended = attention(ctx, graph, layer, q, k, v);
    return gate == nullptr ? attended : ggml_mul(ctx, attended, ggml_sigmoid(ctx, gate));
}

// What layer `layer` is told of tokens i32 [n] themselves  →  [n_embd_per_layer, n].
ggml_tensor * told_of_tokens(ggml_context * ctx, const Hparams & hp, const Weights & weights, int layer, ggml_tensor * tokens,
                             MulMatFn mul_mat) {
    const int64_t n_told = hp.n_embd_per_layer;
    ggml_tensor * table = weights.layer_embd;
    const int64_t first = n_told * layer;
    ggml_tensor * own = nullptr;
    if (n_told % ggml_blck_size(table->type) == 0) {  // the layer's part of every row
        own = ggml_get_rows(
            ctx, ggml_view_2d(ctx, table, n_told, table->ne[1], table->nb[1], ggml_row_size(table->type, first)), tokens);
    } else {
        ggml_tensor * all = ggml_get_rows(ctx, table, tokens);
        own =
            ggml_cont(ctx, ggml_view_2d(ctx, all, n_told, all->ne[1], all->nb[1], static_cast<size_t>(first) * sizeof(float)));
    }
    own = ggml_scale(ctx, own, std::sqrt(static_cast<float>(n_told)));
    ggml_tensor * made =
        mul_mat(ctx, weights.layers[static_cast<size_t>(layer)].token_proj, build_embedding(ctx, hp, weights, tokens));
    made = ggml_scale(ctx, made, 1.0F / std::sqrt(static_cast<float>(hp.n_embd)));
    made = rms_norm(ctx, made, weights.layer_embd_norm, hp.norm_eps);
    return ggml_scale(ctx, ggml_add(ctx, made, own), 1.0F / std::sqrt(2.0F));
}

// hidden [D, n]  →  the same, and what it takes of `told` [n_embd_per_layer, n].
ggml_tensor * add_told(ggml_context * ctx, const Hparams & hp, const LayerWeights & w, ggml_tensor * hidden, ggml_tensor * told,
                       MulMatFn mul_mat) {
    ggml_tensor * taken = ggml_mul(ctx, ggml_gelu(ctx, mul_mat(ctx, w.token_gate, hidden)), told);
    return ggml_add(ctx, hidden, norm(ctx, hp, mul_mat(ctx, w.token_out, taken), w.token_norm));
}

}  // namespace

ggml_tensor * build_query_rotation(ggml_context * ctx, const Hparams & hparams, const Weights & weights, int layer,
                                   ggml_tensor * x, ggml_tensor * positions) {
    return heat(ctx, hparams, layer,
                rope(ctx, hparams, layer, x, positions, weights.layers[static_cast<size_t>(layer)].rope_freqs), positions);
}

ggml_tensor * build_key_unrotation(ggml_context * ctx, const Hparams & hparams, const Weights & weights, int layer,
                                   ggml_tensor * k, ggml_tensor * positions) {
    return rope(ctx, hparams, layer, k, positions, weights.layers[static_cast<size_t>(layer)].rope_freqs, Rope::kBack);
}

ggml_tensor * build_turn(ggml_context * ctx, const Hparams & hparams, const Weights & weights, int layer, ggml_tensor * x,
                         ggml_tensor * by, bool keys) {
    const LayerWeights & w = weights.layers[static_cast<size_t>(layer)];
    ggml_tensor * weight = hparams.form.qk_norm == QkNorm::kPerHeadRotated ? (keys ? w.k_norm : w.q_norm) : nullptr;
    if (weight != nullptr) { x = ggml_div(ctx, x, weight); }
    x = rope(ctx, hparams, layer, x, by, w.rope_freqs, Rope::kFurther);
    return weight == nullptr ? x : ggml_mul(ctx, x, weight);
}

ggml_tensor * build_attention_input(ggml_context * ctx, const Hparams & hparams, ggml_tensor * attn_norm,
                                    ggml_tensor * hidden) {
    return norm(ctx, hparams, hidden, attn_norm);
}

ggml_tensor * build_output_projection(ggml_context * ctx, const Weights & weights, int layer, ggml_tensor * attended,
                                      MulMatFn mul_mat) {
    const LayerWeights & w = weights.layers[static_cast<size_t>(layer)];
    return project(ctx, w.wo, w.lora_o, attended, mul_mat);
}

ggml_tensor * build_embedding(ggml_context * ctx, const Hparams & hparams, const Weights & weights, ggml_tensor * tokens) {
    return scaled(ctx, ggml_get_rows(ctx, weights.token_embd, tokens), hparams.embedding_scale);
}

ggml_tensor * build_layer(ggml_context * ctx, ggml_cgraph * graph, const Hparams & hparams, const Weights & weights, int layer,
                          ggml_tensor * hidden, ggml_tensor * positions, const AttentionFn & attention, ggml_tensor * keep_rows,
                          const RopeTap & tap, const InputTap & input_tap, MulMatFn mul_mat, const RecurrentFn & recurrent,
                          ggml_tensor * tokens) {
    const LayerWeights & w = weights.layers[static_cast<size_t>(layer)];
    const bool is_recurrent = hparams.layer(layer).recurrent;
    const auto leave = [&](ggml_tensor * out) {
        out = norm(ctx, hparams, out, w.ffn_post_norm);
        out = ggml_add(ctx, scaled(ctx, out, hparams.residual_scale), hidden);
        if (w.token_gate != nullptr) {
            ggml_tensor * told = told_of_tokens(ctx, hparams, weights, layer, tokens, mul_mat);
            if (keep_rows != nullptr) { told = ggml_get_rows(ctx, told, keep_rows); }
            out = add_told(ctx, hparams, w, out, told, mul_mat);
        }
        return w.layer_scale == nullptr ? out : ggml_mul(ctx, out, w.layer_scale);
    };
    const auto feed_forward = [&](ggml_tensor * x) {
        return leave(w.router == nullptr ? dense_ffn(ctx, hparams, w, x, mul_mat)
                                         : moe_ffn(ctx, graph, hparams, w, x, x, mul_mat));
    };

    if (hparams.layer(layer).feed_forward_only) {
        if (keep_rows != nullptr) { hidden = ggml_get_rows(ctx, hidden, keep_rows); }
        return feed_forward(build_attention_input(ctx, hparams, w.attn_norm, hidden));
    }
    ggml_tensor * x = build_attention_input(ctx, hparams, w.attn_norm, hidden);
    if (input_tap) { input_tap(x); }
    ggml_tensor * attended = nullptr;  // [dv·H, n]
    if (is_recurrent) {
        attended =
            build_recurrent(ctx, hparams, w, x, recurrent ? recurrent(ctx, layer) : std::vector<RecurrentRows>(), mul_mat);
    } else {
        attended = attend(ctx, graph, hparams, w, layer, x, positions, attention, tap, mul_mat);
    }
    if (keep_rows != nullptr) {
        attended = ggml_get_rows(ctx, attended, keep_rows);
        hidden = ggml_get_rows(ctx, hidden, keep_rows);
        if (hparams.form.parallel) { x = ggml_get_rows(ctx, x, keep_rows); }
    }
    ggml_tensor * out = is_recurrent ? build_recurrent_output(ctx, w, attended, mul_mat)
                                     : add_bias(ctx, build_output_projection(ctx, weights, layer, attended, mul_mat), w.bo);
    out = norm(ctx, hparams, out, w.attn_post_norm);
    hidden = ggml_add(ctx, scaled(ctx, out, hparams.residual_scale), hidden);

    if (!hparams.layer(layer).has_feed_forward) { return hidden; }
    if (w.experts_norm != nullptr) { return leave(dense_and_moe(ctx, graph, hparams, w, hidden, mul_mat)); }
    return feed_forward(hparams.form.parallel ? x : norm(ctx, hparams, hidden, w.ffn_norm));
}

size_t layer_nodes(const Hparams & hparams) {
    return 128 + 2 * static_cast<size_t>(hparams.n_experts_used);
}

ggml_tensor * build_head(ggml_context * ctx, const Hparams & hparams, const Weights & weights, ggml_tensor * hidden,
                         MulMatFn mul_mat) {
    ggml_tensor * weight = weights.output_norm_there != nullptr ? weights.output_norm_there : weights.output_norm;
    ggml_tensor * x = norm(ctx, hparams, hidden, weight);
    ggml_tensor * logits =
        scaled(ctx, add_bias(ctx, mul_mat(ctx, weights.output, x), weights.output_bias), hparams.logit_scale);
    const float cap = hparams.logit_softcap;
    return cap == 0.0F ? logits : ggml_scale(ctx, ggml_tanh(ctx, ggml_scale(ctx, logits, 1.0F / cap)), cap);
}

}  // namespace pith
