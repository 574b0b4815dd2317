// weight_table.cpp - tensor names and shapes of the supported architectures (GGUF's naming). Stage: model.
#include "model/weight_table.h"

namespace pith {
namespace {

class Table {
public:
    void matrix(const std::string & name, int64_t ne0, int64_t ne1, ggml_tensor *& slot, bool required = true) {
        add(name, {ne0, ne1, 1, 1}, WeightUse::kMatmul, required, slot);
    }
    void vector(const std::string & name, int64_t ne0, ggml_tensor *& slot, bool required) {
        add(name, {ne0, 1, 1, 1}, WeightUse::kVector, required, slot);
    }
    void norm(const std::string & blk, const char * name, int64_t ne0, ggml_tensor *& slot) {
        if (name != nullptr) { vector(blk + name + ".weight", ne0, slot, true); }
    }
    void add(const std::string & name, std::array<int64_t, 4> ne, WeightUse use, bool required, ggml_tensor *& slot) {
        list.push_back({name, ne, use, required, &slot});
    }

    std::vector<WantedWeight> list;
};

void add_attention(const Hparams & hp, const std::string & blk, LayerWeights & w, Table & table) {
    const int64_t n_embd = hp.n_embd;
    const int64_t n_q = int64_t{hp.head_dim} * hp.n_heads;
    const int64_t n_k = int64_t{hp.head_dim} * hp.n_kv_heads;
    const int64_t n_v = int64_t{hp.head_dim_v} * hp.n_kv_heads;
    table.norm(blk, hp.form.attn_norm, n_embd, w.attn_norm);
    table.norm(blk, hp.form.attn_post_norm, n_embd, w.attn_post_norm);
    const int64_t n_q_rows = hp.form.output_gate ? 2 * n_q : n_q;
    table.matrix(blk + "attn_q.weight", n_embd, n_q_rows, w.wq);
    table.matrix(blk + "attn_k.weight", n_embd, n_k, w.wk);
    table.matrix(blk + "attn_v.weight", n_embd, n_v, w.wv);
    table.matrix(blk + "attn_output.weight", int64_t{hp.head_dim_v} * hp.n_heads, n_embd, w.wo);
    table.vector(blk + "attn_q.bias", n_q_rows, w.bq, hp.form.qkv_biases);
    table.vector(blk + "attn_k.bias", n_k, w.bk, hp.form.qkv_biases);
    table.vector(blk + "attn_v.bias", n_v, w.bv, hp.form.qkv_biases);
    table.vector(blk + "attn_output.bias", n_embd, w.bo, false);
    if (hp.form.sinks) { table.vector(blk + "attn_sinks.weight", hp.n_heads, w.sinks, true); }
    if (hp.form.qk_norm != QkNorm::kNone) {
        const bool whole = hp.form.qk_norm == QkNorm::kWhole;
        const bool required = hp.form.qk_norm != QkNorm::kMayBePerHead;
        table.vector(blk + "attn_q_norm.weight", whole ? n_q : hp.head_dim, w.q_norm, required);
        table.vector(blk + "attn_k_norm.weight", whole ? n_k : hp.head_dim, w.k_norm, required);
    }
}

void add_delta_net(const Hparams & hp, const std::string & blk, LayerWeights & w, Table & table) {
    const RecurrentHparams & of = hp.recurrent;
    const int64_t n_embd = hp.n_embd;
    const int64_t n_values = int64_t{of.n_heads} * of.head_dim;
    table.add(blk + "ssm_conv1d.weight", {of.n_conv, of.n_channels, 1, 1}, WeightUse::kVector, true, w.conv);
    table.matrix(blk + "attn_qkv.weight", n_embd, of.n_channels, w.delta_qkv);
    table.matrix(blk + "attn_gate.weight", n_embd, n_values, w.delta_gate);
    if (hp.form.neighbours_share_keys) {
        table.matrix(blk + "ssm_ba.weight", n_embd, 2 * int64_t{of.n_heads}, w.delta_both);
    } else {
        table.matrix(blk + "ssm_beta.weight", n_embd, of.n_heads, w.delta_beta);
        table.matrix(blk + "ssm_alpha.weight", n_embd, of.n_heads, w.delta_alpha);
    }
    table.vector(blk + "ssm_dt.bias", of.n_heads, w.delta_bias, true);
    table.vector(blk + "ssm_a", of.n_heads, w.delta_a, true);
    table.vector(blk + "ssm_norm.weight", of.head_dim, w.delta_norm, true);
    table.matrix(blk + "ssm_out.weight", n_values, n_embd, w.delta_out);
}

void add_recurrent(const Hparams & hp, const std::string & blk, LayerWeights & w, Table & table) {
    const int64_t n_embd = hp.n_embd;
    table.norm(blk, hp.form.attn_norm, n_embd, w.attn_norm);
    if (hp.form.recurrent == Recurrent::kDeltaNet) { return add_delta_net(hp, blk, w, table); }
    table.add(blk + "shortconv.conv.weight", {hp.recurrent.n_conv, hp.recurrent.n_channels, 1, 1}, WeightUse::kVector, true,
              w.conv);
    table.matrix(blk + "shortconv.in_proj.weight", n_embd, 3 * n_embd, w.conv_in);
    table.matrix(blk + "shortconv.out_proj.weight", n_embd, n_embd, w.conv_out);
}

void add_feed_forward(const Hparams & hp, int layer, const std::string & blk, LayerWeights & w, Table & table) {
    const int64_t n_embd = hp.n_embd;
    table.norm(blk, hp.form.ffn_norm, n_embd, w.ffn_norm);
    table.norm(blk, hp.form.ffn_post_norm, n_embd, w.ffn_post_norm);
    if (!hp.layer(layer).has_experts) {
        table.matrix(blk + "ffn_gate.weight", n_embd, hp.n_ff, w.ffn_gate);
        table.matrix(blk + "ffn_up.weight", n_embd, hp.n_ff, w.ffn_up);
        table.matrix(blk + "ffn_down.weight", hp.n_ff, n_embd, w.ffn_down);
        table.vector(blk + "ffn_gate.bias", hp.n_ff, w.ffn_gate_bias, false);
        table.vector(blk + "ffn_up.bias", hp.n_ff, w.ffn_up_bias, false);
        table.vector(blk + "ffn_down.bias", n_embd, w.ffn_down_bias, false);
        return;
    }
    const int64_t n_ff = hp.n_ff_expert;
    const int64_t n = hp.n_experts;
    table.matrix(blk + "ffn_gate_inp.weight", n_embd, n, w.router);
    if (hp.form.router_bias) { table.vector(blk + "exp_probs_b.bias", n, w.router_bias, true); }
    table.add(blk + "ffn_gate_exps.weight", {n_embd, n_ff, n, 1}, WeightUse::kExperts, true, w.gate_experts);
    table.add(blk + "ffn_up_exps.weight", {n_embd, n_ff, n, 1}, WeightUse::kExperts, true, w.up_experts);
    table.add(blk + "ffn_down_exps.weight", {n_ff, n_embd, n, 1}, WeightUse::kExperts, true, w.down_experts);
    if (hp.form.expert_biases) {
        table.vector(blk + "ffn_gate_inp.bias", n, w.router_b, true);
        table.add(blk + "ffn_gate_exps.bias", {n_ff, n, 1, 1}, WeightUse::kVector, true, w.gate_experts_b);
        table.add(blk + "ffn_up_exps.bias", {n_ff, n, 1, 1}, WeightUse::kVector, true, w.up_experts_b);
        table.add(blk + "ffn_down_exps.bias", {n_embd, n, 1, 1}, WeightUse::kVector, true, w.down_experts_b);
    }
    if (hp.n_ff_shared == 0) { return; }
    if (hp.form.shared_expert_gate) { table.vector(blk + "ffn_gate_inp_shexp.weight", n_embd, w.shared_weight, true); }
    table.matrix(blk + "ffn_gate_shexp.weight", n_embd, hp.n_ff_shared, w.shared_gate);
    table.matrix(blk + "ffn_up_shexp.weight", n_embd, hp.n_ff_shared, w.shared_up);
    table.matrix(blk + "ffn_down_shexp.weight", hp.n_ff_shared, n_embd, w.shared_down);
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
    for (int layer = 0; layer < hparams.n_layers; ++layer) {
        const std::string blk = "blk." + std::to_string(layer) + ".";
        LayerWeights & w = weights.layers[static_cast<size_t>(layer)];
        if (hparams.layer(layer).recurrent) {
            add_recurrent(hparams, blk, w, table);
        } else {
            add_attention(hparams, blk, w, table);
        }
        add_feed_forward(hparams, layer, blk, w, table);
    }
    return std::move(table.list);
}

}  // namespace pith
