// gate_graph.h - a gate as ggml operations; its attention comes in as a functor. Stage: gate.
// Inference and training share the builder, as model/layer_graph.h does for layers. All tensors f32.
//
// Notation: D hidden size, K KV heads of the model, h heads of the gate, d head size of the gate, n tokens.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "gate/gate_config.h"
#include "model/arch/hparams.h"
#include "model/mul_mat.h"

namespace pith {

// The gate of one layer. A null `out`: the layer has no gate.
struct GateLayerWeights {
    ggml_tensor * wq = nullptr;           // [D, d·h]; null in a linear gate, like wk and wv
    ggml_tensor * wk = nullptr;           // [D, d·h]
    ggml_tensor * wv = nullptr;           // [D, d·h]
    ggml_tensor * hidden = nullptr;       // [D, m], of an MLP
    ggml_tensor * hidden_bias = nullptr;  // [m]
    ggml_tensor * out = nullptr;          // [d·h, K]; linear: [D, K]; MLP: [m, K]
    ggml_tensor * bias = nullptr;         // [K]
};

struct GateWeights {
    std::vector<GateLayerWeights> layers;  // one for every layer of the model
};

// A tensor that a gate has: its name in the file, its shape, its place.
struct GateTensor {
    std::string name;  // "gate.LAYER.q.weight", "….k.weight", "….v.weight", "….hidden.weight", "….hidden.bias", "….out.weight",
                       // "….out.bias"
    int64_t ne0 = 0;
    int64_t ne1 = 0;  // 0: a vector
    ggml_tensor ** slot = nullptr;
};
// Sizes weights.layers, whose tensors stay, and lists every tensor of such a gate. The slots stay valid while weights.layers is
// not resized.
std::vector<GateTensor> gate_tensors(const GateConfig & config, const Hparams & hparams, GateWeights & weights);

// q, k, v [d, h, n]  →  [d·h, n]: softmax(qᵀk / sqrt(d)) over all tokens, or over those not later when the gate is causal.
using GateAttentionFn = std::function<ggml_tensor *(ggml_context * ctx, ggml_tensor * q, ggml_tensor * k, ggml_tensor * v)>;

// x [D, n], the normalised input (build_attention_input) of layer config.input_layer(l)  →  logits [K, n] of layer l.
// attention is not called by a linear gate.   mul_mat: as for layers.
ggml_tensor * build_gate(ggml_context * ctx, const GateConfig & config, const GateLayerWeights & weights, ggml_tensor * x,
                         const GateAttentionFn & attention, MulMatFn mul_mat = kGgmlMulMat);

// For inference: ggml's flash attention, whose memory does not grow with n². q may hold fewer tokens than k and v.
// mask: f16 [n_keys, n_queries], 0 or -inf, for a causal gate; null: every query sees every key.
ggml_tensor * flash_gate_attention(ggml_context * ctx, ggml_tensor * q, ggml_tensor * k, ggml_tensor * v,
                                   ggml_tensor * mask = nullptr);

}  // namespace pith
