// hparams.h - a model's hyper-parameters as its GGUF states them, and the form of its layers. Stage: model.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "model/arch/layer_form.h"

namespace pith {

enum class RopeScaling { kNone, kLinear, kYarn };  // llama3's and longrope's come as tensors of frequency factors

// What may differ from layer to layer.
struct LayerHparams {
    bool rotates = true;  // queries and keys
    bool has_experts = false;
    bool recurrent = false;          // no attention: a state takes its place (LayerForm::recurrent)
    bool feed_forward_only = false;  // neither attention nor a state; attn_norm is the norm of its input
    bool has_feed_forward = true;
    int n_ff = 0;              // its width where it is dense
    int window = 0;            // a query sees the keys of the newest so many positions, its own included; 0: all
    bool chunked = false;      // the window begins at a multiple of its width, for all queries up to the next one
    bool heats = true;         // queries grow with their position, where the model's do
    float rope_base = 0.0F;    // 0: the model's
    bool rope_scales = true;   // as the model says for longer texts
    bool rope_factors = true;  // by the model's factors of frequencies, where it has some
    int kv_source = -1;        // the layer before it whose keys and values its queries see; -1: its own
    // Of its heads; 0: the model's.
    int n_kv_heads = 0;
    int head_dim = 0;
    int head_dim_v = 0;
    int n_rot = 0;

    bool has_attention() const { return !recurrent && !feed_forward_only; }
    bool has_keys() const { return has_attention() && kv_source < 0; }
};

// Of recurrent layers, which are alike. A sequence's state in one of them is f32 [n_conv - 1][n_channels], the newest inputs
// of the convolution, channel by channel, and behind it the memory.
struct RecurrentHparams {
    int n_conv = 0;  // tokens that the convolution sees
    int n_channels = 0;
    int n_memory = 0;  // floats
    // Of a delta net, whose memory is f32 [n_heads][head_dim][head_dim], and of Mamba 2, whose memory is
    // f32 [n_heads][head_dim][n_state].
    int n_heads = 0;      // of values
    int n_key_heads = 0;  // of keys and queries, of Mamba 2 its groups
    int head_dim = 0;
    int n_state = 0;  // of Mamba 2

    int n_tail() const { return (n_conv - 1) * n_channels; }
    int n_floats() const { return n_tail() + n_memory; }
};

struct Hparams {
    std::string arch_name;  // for people, and to tell models apart
    LayerForm form;
    std::string name;  // general.name, may be empty
    int n_vocab = 0;
    int n_ctx_train = 0;
    int n_layers = 0;
    int n_embd = 0;      // D
    int n_heads = 0;     // H
    int n_kv_heads = 0;  // K, here and below of the layers that policies govern; others may have heads of their own
    int head_dim = 0;    // d, of keys; may differ from D / H
    int head_dim_v = 0;  // of values
    std::vector<LayerHparams> layers;
    RecurrentHparams recurrent;
    int n_embd_per_layer = 0;        // width of what each layer is told of its tokens themselves; 0: nothing
    int n_nextn_layers = 0;          // blocks behind n_layers that predict further tokens: not run
    float attention_scale = 0.0F;    // what a product of query and key is multiplied by before the softmax
    float attention_softcap = 0.0F;  // what is left of such a score s: softcap · tanh(s / softcap); 0: s itself
    float logit_softcap = 0.0F;      // the same of logits
    float embedding_scale = 1.0F;
    float residual_scale = 1.0F;  // of what attention and feed-forward add to the hidden state
    float logit_scale = 1.0F;
    // The query at position p is multiplied by 1 + query_temperature · ln(1 + floor((p + offset) / query_temperature_length)).
    float query_temperature = 0.0F;
    int query_temperature_length = 0;
    int query_temperature_offset = 0;
    int n_ff = 0;         // dense feed-forward width, the widest layer's (0 where all layers have experts)
    int n_ff_expert = 0;  // width of one expert
    int n_experts = 0;    // 0: dense
    int n_experts_used = 0;
    int n_ff_shared = 0;  // width of the expert that every token goes through; 0: none
    int n_latent = 0;     // what the other experts read and leave is so wide, between two matrices of the layer's; 0: n_embd
    Router router = Router::kSoftmax;
    bool norm_expert_weights = false;  // renormalise the top-k router weights
    float expert_weights_scale = 1.0F;
    float norm_eps = 1e-5F;
    int n_rot = 0;  // rotated dimensions
    float rope_base = 10000.0F;
    std::vector<int> unrotated_pairs;  // of the n_rot / 2
    RopeScaling rope_scaling = RopeScaling::kNone;
    float rope_freq_scale = 1.0F;  // 1 / factor
    int rope_n_ctx_orig = 0;
    float yarn_ext_factor = 0.0F;  // 1 with YaRN
    float yarn_attn_factor = 1.0F;
    float yarn_beta_fast = 32.0F;
    float yarn_beta_slow = 1.0F;

    int n_group() const { return n_heads / n_kv_heads; }
    size_t n_more_blocks() const { return static_cast<size_t>(n_nextn_layers); }  // in lists of one value a block
    int n_kv_heads_of(int index) const { return of_layer(&LayerHparams::n_kv_heads, index, n_kv_heads); }
    int head_dim_of(int index) const { return of_layer(&LayerHparams::head_dim, index, head_dim); }
    int head_dim_v_of(int index) const { return of_layer(&LayerHparams::head_dim_v, index, head_dim_v); }
    int n_rot_of(int index) const { return of_layer(&LayerHparams::n_rot, index, n_rot); }
    // Whether policies govern the layer's entries: it has some, and sees all of them.
    bool governs(int index) const { return layer(index).window == 0 && layer(index).has_keys(); }
    // Behind the layers that one-shot prefill reads together, from this one on: itself alone, but from the first layer on whose
    // keys later ones read, all that are left.
    int end_of_run(int index) const {
        for (const LayerHparams & one : layers) {
            if (one.kv_source >= 0 && one.kv_source <= index) { return n_layers; }
        }
        return index + 1;
    }
    std::vector<int> governed_layers() const {
        std::vector<int> all;
        for (int l = 0; l < n_layers; ++l) {
            if (governs(l)) { all.push_back(l); }
        }
        return all;
    }
    int n_governed_layers() const { return static_cast<int>(governed_layers().size()); }
    int n_expert_embd() const { return n_latent > 0 ? n_latent : n_embd; }
    bool governs_all() const { return n_governed_layers() == n_layers; }
    int n_recurrent_layers() const {
        int n = 0;
        for (const LayerHparams & one : layers) { n += one.recurrent ? 1 : 0; }
        return n;
    }
    // What the layers are that policies do not govern, for messages.
    const char * ungoverned() const { return n_recurrent_layers() > 0 ? "recurrent layers" : "layers that see a window only"; }
    const LayerHparams & layer(int index) const { return layers[static_cast<size_t>(index)]; }
    // Which of longrope's two lists of factors: keys lie in the cache rotated, so the choice is the model's, not the prompt's.
    bool is_long_rope() const { return n_ctx_train > rope_n_ctx_orig; }

private:
    int of_layer(int LayerHparams::*field, int index, int otherwise) const {
        const int own = layer(index).*field;
        return own != 0 ? own : otherwise;
    }
};

}  // namespace pith
