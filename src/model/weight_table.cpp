// weight_table.cpp - tensor names and shapes of the supported architectures (GGUF's naming). Stage: model.
#include "model/weight_table.h"

#include <string_view>

namespace pith {
namespace {

// Names by which Ollama's files call some tensors, by the ends of the names.
struct OtherName {
    std::string_view end;
    std::string_view other;
};
constexpr OtherName kOtherNames[] = {
    {".attn_output.weight", ".attn_out.weight"},
    {".attn_output.bias", ".attn_out.bias"},
    {".attn_sinks.weight", ".attn_sinks"},
    {".ssm_dt.bias", ".ssm_dt"},
    {".ffn_latent_down.weight", ".ffn_latent_in.weight"},
    {".ffn_latent_up.weight", ".ffn_latent_out.weight"},
    {".ffn_down_exps.scale", ".ffn_gate_inp.per_expert_scale"},
    {"token_embd_norm.weight", "output_norm.weight"},
};

std::string other_name(const std::string & name) {
    for (const OtherName & one : kOtherNames) {
        if (name.ends_with(one.end)) { return name.substr(0, name.size() - one.end.size()) + std::string(one.other); }
    }
    return "";
}

class Table {
public:
    void matrix(const std::string & name, int64_t ne0, int64_t ne1, ggml_tensor *& slot, bool required = true,
                const std::string & unless = "") {
        add(name, {ne0, ne1, 1, 1}, WeightUse::kMatmul, required, slot, unless);
    }
    void vector(const std::string & name, int64_t ne0, ggml_tensor *& slot, bool required) {
        add(name, {ne0, 1, 1, 1}, WeightUse::kVector, required, slot);
    }
    void norm(const std::string & blk, const char * name, int64_t ne0, ggml_tensor *& slot) {
        if (name != nullptr) { vector(blk + name + ".weight", ne0, slot, true); }
    }
    void add(const std::string & name, std::array<int64_t, 4> ne, WeightUse use, bool required, ggml_tensor *& slot,
             const std::string & unless = "") {
        list.push_back({name, ne, use, required, &slot, unless, other_name(name)});
    }

    std::vector<WantedWeight> list;
};

void add_attention(const Hparams & hp, int layer, const std::string & blk, LayerWeights & w, Table & table) {
    const int64_t n_embd = hp.n_embd;
    const int64_t head_dim = hp.head_dim_of(layer);
    const int64_t n_q = head_dim * hp.n_heads;
    const int64_t n_k = head_dim * hp.n_kv_heads_of(layer);
    const int64_t n_v = int64_t{hp.head_dim_v_of(layer)} * hp.n_kv_heads_of(layer);
    table.norm(blk, hp.form.attn_norm, n_embd, w.attn_norm);
    table.norm(blk, hp.form.attn_post_norm, n_embd, w.attn_post_norm);
    const int64_t n_q_rows = hp.form.output_gate ? 2 * n_q : n_q;
    table.matrix(blk + "attn_q.weight", n_embd, n_q_rows, w.wq);
    const bool has_keys = hp.layer(layer).has_keys();
    if (has_keys) { table.matrix(blk + "attn_k.weight", n_embd, n_k, w.wk); }
    const bool may_be_keys = hp.form.value_norm && hp.layer(layer).window == 0;
    if (has_keys) { table.matrix(blk + "attn_v.weight", n_embd, n_v, w.wv, !may_be_keys); }
    table.matrix(blk + "attn_output.weight", int64_t{hp.head_dim_v_of(layer)} * hp.n_heads, n_embd, w.wo);
    table.vector(blk + "attn_q.bias", n_q_rows, w.bq, hp.form.qkv_biases);
    if (has_keys) {
        table.vector(blk + "attn_k.bias", n_k, w.bk, hp.form.qkv_biases);
        table.vector(blk + "attn_v.bias", n_v, w.bv, hp.form.qkv_biases);
    }
    table.vector(blk + "attn_output.bias", n_embd, w.bo,
                 hp.form.sinks);  // gpt-oss has both, and libllama loads it with both alone
    if (hp.form.sinks) { table.vector(blk + "attn_sinks.weight", hp.n_heads, w.sinks, true); }
    if (hp.form.qk_norm != QkNorm::kNone && hp.form.qk_norm != QkNorm::kPlainRotated) {
        const bool whole = hp.form.qk_norm == QkNorm::kWhole;
        const bool required = hp.form.qk_norm != QkNorm::kMayBePerHead;
        table.vector(blk + "attn_q_norm.weight", whole ? n_q : head_dim, w.q_norm, required);
        if (has_keys) { table.vector(blk + "attn_k_norm.weight", whole ? n_k : head_dim, w.k_norm, required); }
    }
}

void add_delta_net(const Hparams & hp, const std::string & blk, LayerWeights & w, Table & table) {
    const RecurrentHparams & of = hp.recurrent;
    const int64_t n_embd = hp.n_embd;
    const int64_t n_values = int64_t{of.n_heads} * of.head_dim;
    table.add(blk + "ssm_conv1d.weight", {of.n_conv, of.n_channels, 1, 1}, WeightUse::kVector, true, w.conv);
    const std::string both = hp.form.neighbours_share_keys ? blk + "ssm_in.weight" : "";  // older files of Qwen 3 Next
    table.matrix(blk + "attn_qkv.weight", n_embd, of.n_channels, w.delta_qkv, true, both);
    table.matrix(blk + "attn_gate.weight", n_embd, n_values, w.delta_gate, true, both);
    if (hp.form.neighbours_share_keys) {
        table.matrix(both, n_embd, of.n_channels + n_values, w.delta_in, false);
        table.matrix(blk + "ssm_ba.weight", n_embd, 2 * int64_t{of.n_heads}, w.delta_both);
    } else {
        table.matrix(blk + "ssm_beta.weight", n_embd, of.n_heads, w.delta_beta);
        table.matrix(blk + "ssm_alpha.weight", n_embd, of.n_heads, w.delta_alpha);
    }
    table.vector(blk + "ssm_dt.bias", of.n_heads, w.delta_bias, true);
    table.vector(blk + "ssm_a", of.n_heads, w.delta_a, true);
    table.vector(blk + "ssm_norm.weight", of.head_dim, w.delta_norm, true);
    table.matrix(blk + "ssm_out.weight", n_values, n_embd, w.state_out);
}

void add_mamba2(const Hparams & hp, const std::string & blk, LayerWeights & w, Table & table) {
    const RecurrentHparams & of = hp.recurrent;
    const int64_t n_values = int64_t{of.n_heads} * of.head_dim;
    const auto grid = [&](const char * name, int64_t ne0, int64_t ne1, ggml_tensor *& slot) {
        table.add(blk + name, {ne0, ne1, 1, 1}, WeightUse::kVector, true, slot);
    };
    table.matrix(blk + "ssm_in.weight", hp.n_embd, n_values + of.n_channels + of.n_heads, w.mamba_in);
    grid("ssm_conv1d.weight", of.n_conv, of.n_channels, w.conv);
    table.vector(blk + "ssm_conv1d.bias", of.n_channels, w.conv_bias, true);
    table.vector(blk + "ssm_dt.bias", of.n_heads, w.mamba_bias, true);
    grid("ssm_a", 1, of.n_heads, w.mamba_a);
    grid("ssm_d", 1, of.n_heads, w.mamba_skip);
    grid("ssm_norm.weight", n_values / of.n_key_heads, of.n_key_heads, w.mamba_norm);
    table.matrix(blk + "ssm_out.weight", n_values, hp.n_embd, w.state_out);
}

void add_recurrent(const Hparams & hp, const std::string & blk, LayerWeights & w, Table & table) {
    const int64_t n_embd = hp.n_embd;
    table.norm(blk, hp.form.attn_norm, n_embd, w.attn_norm);
    if (hp.form.recurrent == Recurrent::kDeltaNet) { return add_delta_net(hp, blk, w, table); }
    if (hp.form.recurrent == Recurrent::kMamba2) { return add_mamba2(hp, blk, w, table); }
    table.add(blk + "shortconv.conv.weight", {hp.recurrent.n_conv, hp.recurrent.n_channels, 1, 1}, WeightUse::kVector, true,
              w.conv);
    table.matrix(blk + "shortconv.in_proj.weight", n_embd, 3 * n_embd, w.conv_in);
    table.matrix(blk + "shortconv.out_proj.weight", n_embd, n_embd, w.state_out);
}

void add_dense(const Hparams & hp, int layer, const std::string & blk, LayerWeights & w, Table & table) {
    const int64_t n_embd = hp.n_embd;
    const int64_t n_ff = hp.layer(layer).n_ff;
    if (hp.form.has_gate()) {
        table.matrix(blk + "ffn_gate.weight", n_embd, n_ff, w.ffn_gate);
        table.vector(blk + "ffn_gate.bias", n_ff, w.ffn_gate_bias, false);
    }
    table.matrix(blk + "ffn_up.weight", n_embd, n_ff, w.ffn_up);
    table.matrix(blk + "ffn_down.weight", n_ff, n_embd, w.ffn_down);
    table.vector(blk + "ffn_up.bias", n_ff, w.ffn_up_bias, false);
    table.vector(blk + "ffn_down.bias", n_embd, w.ffn_down_bias, false);
}

void add_experts(const Hparams & hp, const std::string & blk, LayerWeights & w, Table & table) {
    const int64_t n_embd = hp.n_embd;
    const int64_t n_ff = hp.n_ff_expert;
    const int64_t n = hp.n_experts;
    const int64_t n_in = hp.n_expert_embd();
    const bool has_gate = hp.form.has_gate();
    const std::string both = has_gate && !hp.form.expert_biases ? blk + "ffn_gate_up_exps.weight" : "";
    const auto experts = [&](const char * name, int64_t ne0, int64_t ne1, ggml_tensor *& slot, const std::string & unless) {
        table.add(blk + name, {ne0, ne1, n, 1}, WeightUse::kExperts, true, slot, unless);
    };
    table.matrix(blk + "ffn_gate_inp.weight", n_embd, n, w.router);
    if (hp.form.router_bias) { table.vector(blk + "exp_probs_b.bias", n, w.router_bias, true); }
    if (hp.n_latent > 0) {
        table.matrix(blk + "ffn_latent_down.weight", n_embd, n_in, w.latent_in);
        table.matrix(blk + "ffn_latent_up.weight", n_in, n_embd, w.latent_out);
    }
    if (has_gate) { experts("ffn_gate_exps.weight", n_in, n_ff, w.gate_experts, both); }
    experts("ffn_up_exps.weight", n_in, n_ff, w.up_experts, both);
    experts("ffn_down_exps.weight", n_ff, n_in, w.down_experts, "");
    if (!both.empty()) { table.add(both, {n_in, 2 * n_ff, n, 1}, WeightUse::kExperts, false, w.gate_up_experts); }
    if (hp.form.expert_biases) {
        table.vector(blk + "ffn_gate_inp.bias", n, w.router_b, true);
        table.add(blk + "ffn_gate_exps.bias", {n_ff, n, 1, 1}, WeightUse::kVector, true, w.gate_experts_b);
        table.add(blk + "ffn_up_exps.bias", {n_ff, n, 1, 1}, WeightUse::kVector, true, w.up_experts_b);
        table.add(blk + "ffn_down_exps.bias", {n_embd, n, 1, 1}, WeightUse::kVector, true, w.down_experts_b);
    }
    if (hp.form.experts_beside_dense) {
        table.norm(blk, "post_ffw_norm_1", n_embd, w.dense_post_norm);
        table.norm(blk, "pre_ffw_norm_2", n_embd, w.experts_norm);
        table.norm(blk, "post_ffw_norm_2", n_embd, w.experts_post_norm);
        table.vector(blk + "ffn_gate_inp.scale", n_embd, w.router_scale, true);
        table.vector(blk + "ffn_down_exps.scale", n, w.down_experts_scale, false);
    }
    if (hp.n_ff_shared == 0) { return; }
    if (hp.form.shared_expert_gate) { table.vector(blk + "ffn_gate_inp_shexp.weight", n_embd, w.shared_weight, true); }
    if (has_gate) { table.matrix(blk + "ffn_gate_shexp.weight", n_embd, hp.n_ff_shared, w.shared_gate); }
    table.matrix(blk + "ffn_up_shexp.weight", n_embd, hp.n_ff_shared, w.shared_up);
    table.matrix(blk + "ffn_down_shexp.weight", hp.n_ff_shared, n_embd, w.shared_down);
}

void add_feed_forward(const Hparams & hp, int layer, const std::string & blk, LayerWeights & w, Table & table) {
    table.norm(blk, hp.form.ffn_norm, hp.n_embd, w.ffn_norm);
    if (hp.form.ffn_norm != nullptr && hp.form.ffn_norm != std::string_view("ffn_norm")) {
        table.list.back().other_name = blk + "ffn_norm.weight";  // Ollama's
    }
    table.norm(blk, hp.form.ffn_post_norm, hp.n_embd, w.ffn_post_norm);
    const bool has_experts = hp.layer(layer).has_experts;
    if (!has_experts || hp.form.experts_beside_dense) { add_dense(hp, layer, blk, w, table); }
    if (has_experts) { add_experts(hp, blk, w, table); }
}

}  // namespace

std::vector<WantedWeight> wanted_weights(const Hparams & hparams, Weights & weights) {
    Table table;
    weights.layers.assign(static_cast<size_t>(hparams.n_layers), {});
    table.add("token_embd.weight", {hparams.n_embd, hparams.n_vocab, 1, 1}, WeightUse::kRows, true, weights.token_embd);
    table.vector(std::string(hparams.form.output_norm) + ".weight", hparams.n_embd, weights.output_norm, true);
    table.matrix("output.weight", hparams.n_embd, hparams.n_vocab, weights.output, false);  // absent: tied to token_embd
    table.vector("output.bias", hparams.n_vocab, weights.output_bias, false);
    if (hparams.unrotated_pairs.empty()) {  // they are factors, too
        const int64_t n_pairs = hparams.n_rot / 2;
        table.vector("rope_freqs.weight", n_pairs, weights.layers.front().rope_freqs, false);  // one for all layers
        table.vector("rope_factors_long.weight", n_pairs, weights.rope_long, false);
        table.vector("rope_factors_short.weight", n_pairs, weights.rope_short, false);
    }
    if (const int64_t n = hparams.n_embd_per_layer; n > 0) {
        table.add("per_layer_token_embd.weight", {n * hparams.n_layers, hparams.n_vocab, 1, 1}, WeightUse::kRows, true,
                  weights.layer_embd);
        table.vector("per_layer_proj_norm.weight", n, weights.layer_embd_norm, true);
    }
    for (int layer = 0; layer < hparams.n_layers; ++layer) {
        const std::string blk = "blk." + std::to_string(layer) + ".";
        LayerWeights & w = weights.layers[static_cast<size_t>(layer)];
        const LayerHparams & of = hparams.layer(layer);
        if (of.feed_forward_only) {
            table.norm(blk, hparams.form.attn_norm, hparams.n_embd, w.attn_norm);
        } else if (of.recurrent) {
            add_recurrent(hparams, blk, w, table);
        } else {
            add_attention(hparams, layer, blk, w, table);
        }
        if (of.has_feed_forward) { add_feed_forward(hparams, layer, blk, w, table); }
        if (const int64_t n = hparams.n_embd_per_layer; n > 0) {
            table.matrix(blk + "per_layer_model_proj.weight", hparams.n_embd, n, w.token_proj);
            table.matrix(blk + "inp_gate.weight", hparams.n_embd, n, w.token_gate);
            table.matrix(blk + "proj.weight", n, hparams.n_embd, w.token_out);
            table.vector(blk + "post_norm.weight", hparams.n_embd, w.token_norm, true);
        }
        if (hparams.form.layer_scale) { table.vector(blk + "layer_output_scale.weight", 1, w.layer_scale, false); }
    }
    return std::move(table.list);
}

}  // namespace pith
