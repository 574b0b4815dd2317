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
    ggml_tensor * attn_norm = nullptr;         // f32 [D]
    ggml_tensor * attn_post_norm = nullptr;    // f32 [D]
    ggml_tensor * wq = nullptr;                // [D, d·H]
    ggml_tensor * wk = nullptr;                // [D, d·K]
    ggml_tensor * wv = nullptr;                // [D, dv·K]
    ggml_tensor * wo = nullptr;                // [dv·H, D]
    ggml_tensor * bq = nullptr;                // f32 [d·H]
    ggml_tensor * bk = nullptr;                // f32 [d·K]
    ggml_tensor * bv = nullptr;                // f32 [dv·K]
    ggml_tensor * bo = nullptr;                // f32 [D]
    ggml_tensor * q_norm = nullptr;            // f32 [d], or [d·H] where all heads are one
    ggml_tensor * k_norm = nullptr;            // f32 [d] or [d·K]
    ggml_tensor * rope_freqs = nullptr;        // f32 [n_rot / 2], frequency factors, the same for all layers that use them
    ggml_tensor * rope_freqs_there = nullptr;  // the same, on the device where the layer is; null: it is here

    ggml_tensor * sinks = nullptr;  // f32 [H]

    // Of a recurrent layer.
    ggml_tensor * conv = nullptr;         // f32 [n_conv, n_channels]
    ggml_tensor * conv_bias = nullptr;    // f32 [n_channels]
    ggml_tensor * state_out = nullptr;    // [m, D], what comes behind the state: m is D of a short convolution, else d·heads
    ggml_tensor * conv_in = nullptr;      // [D, 3·D], of a short convolution: what its gates are, and what goes in
    ggml_tensor * delta_in = nullptr;     // [D, n_channels + d·heads], of a delta net: the next two, key head by key head
    ggml_tensor * delta_qkv = nullptr;    // [D, n_channels]
    ggml_tensor * delta_gate = nullptr;   // [D, d·heads]
    ggml_tensor * delta_beta = nullptr;   // [D, heads], how much of a value is replaced
    ggml_tensor * delta_alpha = nullptr;  // [D, heads], how fast the memory decays
    ggml_tensor * delta_both = nullptr;   // [D, 2·heads]: the last two, key head by key head
    ggml_tensor * delta_bias = nullptr;   // f32 [heads], of alpha
    ggml_tensor * delta_a = nullptr;      // f32 [heads], its factor
    ggml_tensor * delta_norm = nullptr;   // f32 [d]
    ggml_tensor * mamba_in = nullptr;     // [D, 2·d·heads + 2·groups·n_state + heads]: gate, what is convolved, time steps
    ggml_tensor * mamba_a = nullptr;      // f32 [1, heads], how fast the memory decays
    ggml_tensor * mamba_bias = nullptr;   // f32 [heads], of the time steps
    ggml_tensor * mamba_skip = nullptr;   // f32 [1, heads], what goes past the memory
    ggml_tensor * mamba_norm = nullptr;   // f32 [d·heads / groups, groups]

    LoraPair lora_q, lora_k, lora_v, lora_o;  // of wq, wk, wv, wo

    ggml_tensor * ffn_norm = nullptr;            // f32 [D]
    ggml_tensor * ffn_post_norm = nullptr;       // f32 [D]
    ggml_tensor * ffn_gate = nullptr;            // [D, n_ff]
    ggml_tensor * ffn_up = nullptr;              // [D, n_ff]
    ggml_tensor * ffn_down = nullptr;            // [n_ff, D]
    ggml_tensor * ffn_gate_bias = nullptr;       // f32 [n_ff]
    ggml_tensor * ffn_up_bias = nullptr;         // f32 [n_ff]
    ggml_tensor * ffn_down_bias = nullptr;       // f32 [D]
    ggml_tensor * router = nullptr;              // [D, n_experts]
    ggml_tensor * token_proj = nullptr;          // [D, n_embd_per_layer], of the embedding: what the layer is told of a token
    ggml_tensor * token_gate = nullptr;          // [D, n_embd_per_layer], how much of that it takes
    ggml_tensor * token_out = nullptr;           // [n_embd_per_layer, D]
    ggml_tensor * token_norm = nullptr;          // f32 [D], of what is then added
    ggml_tensor * layer_scale = nullptr;         // f32 [1], of what the layer leaves
    ggml_tensor * dense_post_norm = nullptr;     // f32 [D], of the dense feed-forward's output beside experts
    ggml_tensor * experts_norm = nullptr;        // f32 [D], of the experts' input beside a dense feed-forward
    ggml_tensor * experts_post_norm = nullptr;   // f32 [D], of their output
    ggml_tensor * router_scale = nullptr;        // f32 [D], of the router's input there
    ggml_tensor * down_experts_scale = nullptr;  // f32 [n_experts], of each expert's output
    ggml_tensor * router_bias = nullptr;         // f32 [n_experts], for the choice alone
    ggml_tensor * router_b = nullptr;            // f32 [n_experts], of the product
    ggml_tensor * gate_experts_b = nullptr;      // f32 [n_ff_expert, n_experts]
    ggml_tensor * up_experts_b = nullptr;        // f32 [n_ff_expert, n_experts]
    ggml_tensor * down_experts_b = nullptr;      // f32 [D, n_experts]
    ggml_tensor * gate_experts = nullptr;        // [D, n_ff_expert, n_experts]
    ggml_tensor * up_experts = nullptr;          // [D, n_ff_expert, n_experts]
    ggml_tensor * gate_up_experts = nullptr;     // [D, 2·n_ff_expert, n_experts]: both in one, each expert's gate first
    ggml_tensor * down_experts = nullptr;        // [n_ff_expert, D, n_experts]
    // Where experts are of a width E of their own: E is their D. What they read, and what they give, are made of D's and by
    // these.
    ggml_tensor * latent_in = nullptr;      // [D, E]
    ggml_tensor * latent_out = nullptr;     // [E, D]
    ggml_tensor * shared_gate = nullptr;    // [D, n_ff_shared], of the expert that every token goes through
    ggml_tensor * shared_weight = nullptr;  // f32 [D], of its gate
    ggml_tensor * shared_up = nullptr;      // [D, n_ff_shared]
    ggml_tensor * shared_down = nullptr;    // [n_ff_shared, D]
};

struct Weights {
    ggml_tensor * token_embd = nullptr;         // [D, n_vocab], plain (rows are read)
    ggml_tensor * layer_embd = nullptr;         // [n_embd_per_layer · layers, n_vocab], plain
    ggml_tensor * layer_embd_norm = nullptr;    // f32 [n_embd_per_layer]
    ggml_tensor * output_norm = nullptr;        // f32 [D]
    ggml_tensor * output_norm_there = nullptr;  // the same, on the device where the output is; null: it is here
    ggml_tensor * output = nullptr;             // [D, n_vocab]; may be a repacked copy of token_embd, or token_embd itself
    ggml_tensor * output_bias = nullptr;        // f32 [n_vocab]
    ggml_tensor * rope_long = nullptr;          // f32 [n_rot / 2], longrope's factors, of which a model uses one list
    ggml_tensor * rope_short = nullptr;
    std::vector<LayerWeights> layers;
};

}  // namespace pith
