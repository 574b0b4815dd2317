// gate_graph.cpp - a gate as ggml operations. Stage: gate.
#include "gate/gate_graph.h"

#include <ggml.h>

#include <cmath>

namespace pith {

std::vector<GateTensor> gate_tensors(const GateConfig & config, const Hparams & hparams, GateWeights & weights) {
    std::vector<GateTensor> list;
    weights.layers.resize(static_cast<size_t>(hparams.n_layers));
    const int64_t width = int64_t{config.head_dim} * config.n_heads;
    for (const int l : layers_with_gate(config, hparams)) {
        const std::string prefix = "gate." + std::to_string(l) + ".";
        GateLayerWeights & w = weights.layers[static_cast<size_t>(l)];
        const bool attends = config.kind == GateKind::kAttention;
        if (attends) {
            list.push_back({prefix + "q.weight", hparams.n_embd, width, &w.wq});
            list.push_back({prefix + "k.weight", hparams.n_embd, width, &w.wk});
            list.push_back({prefix + "v.weight", hparams.n_embd, width, &w.wv});
        }
        const bool hides = config.kind == GateKind::kMlp;
        if (hides) {
            list.push_back({prefix + "hidden.weight", hparams.n_embd, config.n_hidden, &w.hidden});
            list.push_back({prefix + "hidden.bias", config.n_hidden, 0, &w.hidden_bias});
        }
        const int64_t n_read = attends ? width : hides ? config.n_hidden : hparams.n_embd;
        list.push_back({prefix + "out.weight", n_read, hparams.n_kv_heads, &w.out});
        list.push_back({prefix + "out.bias", hparams.n_kv_heads, 0, &w.bias});
    }
    return list;
}

ggml_tensor * build_gate(ggml_context * ctx, const GateConfig & config, const GateLayerWeights & weights, ggml_tensor * x,
                         const GateAttentionFn & attention, MulMatFn mul_mat) {
    if (config.kind == GateKind::kAttention) {
        const auto heads = [&](ggml_tensor * weight) {
            return ggml_reshape_3d(ctx, mul_mat(ctx, weight, x), config.head_dim, config.n_heads, x->ne[1]);
        };
        ggml_tensor * q = heads(weights.wq);
        ggml_tensor * k = heads(weights.wk);
        ggml_tensor * v = heads(weights.wv);
        x = attention(ctx, q, k, v);
    }
    if (config.kind == GateKind::kMlp) {
        x = ggml_gelu_erf(ctx, ggml_add(ctx, mul_mat(ctx, weights.hidden, x), weights.hidden_bias));
    }
    return ggml_add(ctx, mul_mat(ctx, weights.out, x), weights.bias);
}

ggml_tensor * flash_gate_attention(ggml_context * ctx, ggml_tensor * q, ggml_tensor * k, ggml_tensor * v, ggml_tensor * mask) {
    const auto by_head = [&](ggml_tensor * x) { return ggml_permute(ctx, x, 0, 2, 1, 3); };  // [d, h, n] → [d, n, h]
    const float scale = 1.0F / std::sqrt(static_cast<float>(q->ne[0]));
    ggml_tensor * out = ggml_flash_attn_ext(ctx, by_head(q), by_head(k), by_head(v), mask, scale, 0.0F, 0.0F);  // [d, h, n]
    return ggml_reshape_2d(ctx, out, out->ne[0] * out->ne[1], out->ne[2]);
}

}  // namespace pith
