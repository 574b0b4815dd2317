// weights.h - a model's weights as ggml tensors, whoever owns them (a loaded file or the trainer). Stage: model.
// Shapes in ggml's notation [ne0, ne1, …]; a null pointer means the model has no such tensor.
#pragma once

#include <vector>

struct ggml_tensor;

namespace pith {

// A low-rank addition to a matrix W [n, m]: y = W·x + scale · b·(a·x). Null: none.
// Paper: LoRA (Hu et al., 2021).
struct LoraPair {
    ggml_tensor * a = nullptr;  // f32 [n, rank]
    ggml_tensor * b = nullptr;  // f32 [rank, m]
    float scale = 0.0F;
};

struct LayerWeights {
    ggml_tensor * attn_norm = nullptr;       // f32 [D]
    ggml_tensor * attn_post_norm = nullptr;  // f32 [D]
    ggml_tensor * wq = nullptr;              // [D, d·H]
    ggml_tensor * wk = nullptr;              // [D, d·K]
    ggml_tensor * wv = nullptr;              // [D, dv·K]
    ggml_tensor * wo = nullptr;              // [dv·H, D]
    ggml_tensor * bq = nullptr;              // f32 [d·H]
    ggml_tensor * bk = nullptr;              // f32 [d·K]
    ggml_tensor * bv = nullptr;              // f32 [dv·K]
    ggml_tensor * bo = nullptr;              // f32 [D]
    ggml_tensor * q_norm = nullptr;          // f32 [d], or [d·H] where all heads are one
    ggml_tensor * k_norm = nullptr;          // f32 [d] or [d·K]
    ggml_tensor * rope_freqs = nullptr;      // f32 [n_rot / 2], frequency factors, the same for all layers

    ggml_tensor * sinks = nullptr;  // f32 [H]

    // Of a recurrent layer.
    ggml_tensor * conv = nullptr;         // f32 [n_conv, n_channels]
    ggml_tensor * conv_in = nullptr;      // [D, 3·D], of a short convolution: what its gates are, and what goes in
    ggml_tensor * conv_out = nullptr;     // [D, D]
    ggml_tensor * delta_qkv = nullptr;    // [D, n_channels], of a delta net
    ggml_tensor * delta_gate = nullptr;   // [D, d·heads]
    ggml_tensor * delta_beta = nullptr;   // [D, heads], how much of a value is replaced
    ggml_tensor * delta_alpha = nullptr;  // [D, heads], how fast the memory decays
    ggml_tensor * delta_both = nullptr;   // [D, 2·heads]: the last two, key head by key head
    ggml_tensor * delta_bias = nullptr;   // f32 [heads], of alpha
    ggml_tensor * delta_a = nullptr;      // f32 [heads], its factor
    ggml_tensor * delta_norm = nullptr;   // f32 [d]
    ggml_tensor * delta_out = nullptr;    // [d·heads, D]

    LoraPair lora_q, lora_k, lora_v, lora_o;  // of wq, wk, wv, wo

    ggml_tensor * ffn_norm = nullptr;        // f32 [D]
    ggml_tensor * ffn_post_norm = nullptr;   // f32 [D]
    ggml_tensor * ffn_gate = nullptr;        // [D, n_ff]
    ggml_tensor * ffn_up = nullptr;          // [D, n_ff]
    ggml_tensor * ffn_down = nullptr;        // [n_ff, D]
    ggml_tensor * ffn_gate_bias = nullptr;   // f32 [n_ff]
    ggml_tensor * ffn_up_bias = nullptr;     // f32 [n_ff]
    ggml_tensor * ffn_down_bias = nullptr;   // f32 [D]
    ggml_tensor * router = nullptr;          // [D, n_experts]
    ggml_tensor * router_bias = nullptr;     // f32 [n_experts], for the choice alone
    ggml_tensor * router_b = nullptr;        // f32 [n_experts], of the product
    ggml_tensor * gate_experts_b = nullptr;  // f32 [n_ff_expert, n_experts]
    ggml_tensor * up_experts_b = nullptr;    // f32 [n_ff_expert, n_experts]
    ggml_tensor * down_experts_b = nullptr;  // f32 [D, n_experts]
    ggml_tensor * gate_experts = nullptr;    // [D, n_ff_expert, n_experts]
    ggml_tensor * up_experts = nullptr;      // [D, n_ff_expert, n_experts]
    ggml_tensor * down_experts = nullptr;    // [n_ff_expert, D, n_experts]
    ggml_tensor * shared_gate = nullptr;     // [D, n_ff_shared], of the expert that every token goes through
    ggml_tensor * shared_weight = nullptr;   // f32 [D], of its gate
    ggml_tensor * shared_up = nullptr;       // [D, n_ff_shared]
    ggml_tensor * shared_down = nullptr;     // [n_ff_shared, D]
};

struct Weights {
    ggml_tensor * token_embd = nullptr;   // [D, n_vocab], plain (rows are read)
    ggml_tensor * output_norm = nullptr;  // f32 [D]
    ggml_tensor * output = nullptr;       // [D, n_vocab]; may be a repacked copy of token_embd, or token_embd itself
    ggml_tensor * output_bias = nullptr;  // f32 [n_vocab]
    ggml_tensor * rope_long = nullptr;    // f32 [n_rot / 2], longrope's factors, of which a model uses one list
    ggml_tensor * rope_short = nullptr;
    std::vector<LayerWeights> layers;
};

}  // namespace pith
