// recurrent_graph.cpp - short convolutions, gated delta nets, and Mamba 2. Stage: model.
#include "model/recurrent_graph.h"

#include <ggml.h>

namespace pith {
namespace {

// Rows [first, first + n) of x [m, all].
ggml_tensor * rows_of(ggml_context * ctx, ggml_tensor * x, int64_t first, int64_t n) {
    return ggml_view_2d(ctx, x, x->ne[0], n, x->nb[1], static_cast<size_t>(first) * x->nb[1]);
}

// Elements [first, first + n) of every row of x [m, rows].
ggml_tensor * part_of(ggml_context * ctx, ggml_tensor * x, int64_t first, int64_t n) {
    return ggml_view_2d(ctx, x, n, x->ne[1], x->nb[1], static_cast<size_t>(first) * ggml_element_size(x));
}

// x [channels, n_tokens · n_seqs] behind the tail  →  the convolution's outputs, same shape. next: the tail behind x.
// Paper: the kernel of H3 and Mamba (Fu et al., 2022; Gu and Dao, 2023): each channel by itself, over its newest n_conv inputs.
ggml_tensor * convolve(ggml_context * ctx, const LayerWeights & w, const RecurrentRows & rows, ggml_tensor * x,
                       ggml_tensor *& next) {
    const int64_t n_channels = x->ne[0];
    const int64_t n_tail = w.conv->ne[0] - 1;
    ggml_tensor * by_channel =
        ggml_cont(ctx, ggml_transpose(ctx, ggml_reshape_3d(ctx, x, n_channels, rows.n_tokens, rows.n_seqs)));
    ggml_tensor * inputs = ggml_concat(ctx, rows.tail, by_channel, 0);  // [n_tail + n_tokens, channels, n_seqs]
    next = ggml_cont(ctx, ggml_view_3d(ctx, inputs, n_tail, n_channels, rows.n_seqs, inputs->nb[1], inputs->nb[2],
                                       static_cast<size_t>(rows.n_tokens) * inputs->nb[0]));
    ggml_tensor * out = ggml_ssm_conv(ctx, inputs, w.conv);
    if (w.conv_bias != nullptr) { out = ggml_add(ctx, out, w.conv_bias); }
    return ggml_reshape_2d(ctx, out, n_channels, rows.n_tokens * rows.n_seqs);
}

// A state of zeros.
RecurrentRows from_the_beginning(ggml_context * ctx, const Hparams & hp, int64_t n) {
    const RecurrentHparams & of = hp.recurrent;
    RecurrentRows rows{n, 1};
    const auto zeros = [ctx](ggml_tensor * tensor) { return ggml_fill(ctx, tensor, 0.0F); };
    rows.tail = zeros(ggml_new_tensor_3d(ctx, GGML_TYPE_F32, of.n_conv - 1, of.n_channels, 1));
    if (of.n_memory > 0) { rows.memory = zeros(ggml_new_tensor_2d(ctx, GGML_TYPE_F32, of.n_memory, 1)); }
    return rows;
}

// x [3·D, n]: what the gate in front multiplies, what the gate behind does, and what goes in.  →  [D, n]
// Paper: LFM2 (Liquid AI, 2025).
ggml_tensor * short_conv(ggml_context * ctx, const LayerWeights & w, const RecurrentRows & rows, ggml_tensor * x) {
    const int64_t n_embd = x->ne[0] / 3;
    ggml_tensor * in = ggml_mul(ctx, part_of(ctx, x, 0, n_embd), part_of(ctx, x, 2 * n_embd, n_embd));
    ggml_tensor * next = nullptr;
    ggml_tensor * out = convolve(ctx, w, rows, in, next);
    if (rows.keep) { rows.keep(next, nullptr); }
    return ggml_mul(ctx, part_of(ctx, x, n_embd, n_embd), out);
}

// Inputs of a delta net, of all rows of a pass.
struct DeltaInputs {
    ggml_tensor * mixed = nullptr;  // [n_channels, n]: queries, keys and values, before the convolution
    ggml_tensor * beta = nullptr;   // [heads, n]
    ggml_tensor * decay = nullptr;  // [heads, n], its logarithm
    ggml_tensor * gate = nullptr;   // [d·heads, n], behind the memory
};

// all [n_channels + d·heads, n]: of each key head its query, its key, and of the heads that share it values and gates.
void take_apart(ggml_context * ctx, const RecurrentHparams & of, ggml_tensor * all, DeltaInputs & in) {
    const int64_t n = all->ne[1];
    const int64_t n_values = int64_t{of.n_heads} / of.n_key_heads * of.head_dim;  // of a key head
    const int64_t n_row = 2 * int64_t{of.head_dim} + 2 * n_values;
    const size_t size = ggml_element_size(all);
    const auto part = [&](int64_t first, int64_t width) {
        ggml_tensor * of_heads = ggml_view_3d(ctx, all, width, of.n_key_heads, n, static_cast<size_t>(n_row) * size, all->nb[1],
                                              static_cast<size_t>(first) * size);
        return ggml_cont_2d(ctx, of_heads, width * of.n_key_heads, n);
    };
    ggml_tensor * keys = ggml_concat(ctx, part(0, of.head_dim), part(of.head_dim, of.head_dim), 0);
    in.mixed = ggml_concat(ctx, keys, part(2 * int64_t{of.head_dim}, n_values), 0);
    in.gate = part(2 * int64_t{of.head_dim} + n_values, n_values);
}

DeltaInputs delta_inputs(ggml_context * ctx, const RecurrentHparams & of, const LayerWeights & w, ggml_tensor * x,
                         MulMatFn mul_mat) {
    const int64_t n = x->ne[1];
    DeltaInputs in;
    if (w.delta_in != nullptr) {
        take_apart(ctx, of, mul_mat(ctx, w.delta_in, x), in);
    } else {
        in.mixed = mul_mat(ctx, w.delta_qkv, x);
        in.gate = mul_mat(ctx, w.delta_gate, x);
    }
    ggml_tensor * alpha = nullptr;
    if (w.delta_both != nullptr) {
        const int64_t n_share = of.n_heads / of.n_key_heads;
        ggml_tensor * both = ggml_reshape_2d(ctx, mul_mat(ctx, w.delta_both, x), 2 * n_share, of.n_key_heads * n);
        in.beta = ggml_cont_2d(ctx, part_of(ctx, both, 0, n_share), of.n_heads, n);
        alpha = ggml_cont_2d(ctx, part_of(ctx, both, n_share, n_share), of.n_heads, n);
    } else {
        in.beta = mul_mat(ctx, w.delta_beta, x);
        alpha = mul_mat(ctx, w.delta_alpha, x);
    }
    in.beta = ggml_sigmoid(ctx, in.beta);
    in.decay = ggml_mul(ctx, ggml_softplus(ctx, ggml_add(ctx, alpha, w.delta_bias)), w.delta_a);
    return in;
}

// in: of these rows  →  [d·heads, n].   Paper: Gated Delta Networks (Yang et al., 2024).
ggml_tensor * delta_net(ggml_context * ctx, const Hparams & hp, const LayerWeights & w, const RecurrentRows & rows,
                        const DeltaInputs & in) {
    const RecurrentHparams & of = hp.recurrent;
    const int64_t d = of.head_dim;
    ggml_tensor * tail = nullptr;
    ggml_tensor * mixed = ggml_silu(ctx, convolve(ctx, w, rows, in.mixed, tail));
    const auto heads = [&](int64_t first, int64_t n_heads) {
        const size_t row = mixed->nb[1];
        return ggml_view_4d(ctx, mixed, d, n_heads, rows.n_tokens, rows.n_seqs, static_cast<size_t>(d) * mixed->nb[0], row,
                            static_cast<size_t>(rows.n_tokens) * row, static_cast<size_t>(first * d) * mixed->nb[0]);
    };
    const auto keys = [&](int64_t first) {
        ggml_tensor * x = ggml_l2_norm(ctx, heads(first, of.n_key_heads), hp.norm_eps);
        if (!hp.form.neighbours_share_keys) { return x; }
        const int64_t n = rows.n_tokens * rows.n_seqs;
        x = ggml_repeat_4d(ctx, ggml_reshape_4d(ctx, x, d, 1, of.n_key_heads, n), d, of.n_heads / of.n_key_heads,
                           of.n_key_heads, n);
        return ggml_reshape_4d(ctx, x, d, of.n_heads, rows.n_tokens, rows.n_seqs);
    };
    const auto of_heads = [&](ggml_tensor * x) { return ggml_reshape_4d(ctx, x, 1, of.n_heads, rows.n_tokens, rows.n_seqs); };
    ggml_tensor * values = ggml_cont(ctx, heads(2 * int64_t{of.n_key_heads}, of.n_heads));
    ggml_tensor * memory = ggml_reshape_4d(ctx, rows.memory, d, d, of.n_heads, rows.n_seqs);
    ggml_tensor * all =
        ggml_gated_delta_net(ctx, keys(0), keys(of.n_key_heads), values, of_heads(in.decay), of_heads(in.beta), memory, 1);
    const int64_t n_values = d * of.n_heads;
    const size_t behind = static_cast<size_t>(n_values * rows.n_tokens * rows.n_seqs) * sizeof(float);
    if (rows.keep) { rows.keep(tail, ggml_cont(ctx, ggml_view_1d(ctx, all, n_values * d * rows.n_seqs, behind))); }
    return ggml_view_2d(ctx, all, n_values, rows.n_tokens * rows.n_seqs, static_cast<size_t>(n_values) * sizeof(float), 0);
}

// What the memory gave, each head normed by itself, times its gate. out, gate [d·heads, n].
ggml_tensor * gated_norm(ggml_context * ctx, const Hparams & hp, const LayerWeights & w, ggml_tensor * out,
                         ggml_tensor * gate) {
    const RecurrentHparams & of = hp.recurrent;
    const int64_t n = out->ne[1];
    out = ggml_reshape_3d(ctx, out, of.head_dim, of.n_heads, n);
    out = ggml_mul(ctx, ggml_rms_norm(ctx, out, hp.norm_eps), w.delta_norm);
    return ggml_mul(ctx, ggml_reshape_2d(ctx, out, int64_t{of.head_dim} * of.n_heads, n), ggml_silu(ctx, gate));
}

// Inputs of Mamba 2, of all rows of a pass.
struct MambaInputs {
    ggml_tensor * mixed = nullptr;  // [n_channels, n]: values, keys and queries, before the convolution
    ggml_tensor * steps = nullptr;  // [heads, n]: how far the memory is to decay, before the softplus
    ggml_tensor * gate = nullptr;   // [d·heads, n], behind the memory
};

MambaInputs mamba_inputs(ggml_context * ctx, const RecurrentHparams & of, const LayerWeights & w, ggml_tensor * x,
                         MulMatFn mul_mat) {
    const int64_t n_values = int64_t{of.n_heads} * of.head_dim;
    ggml_tensor * all = mul_mat(ctx, w.mamba_in, x);
    MambaInputs in;
    in.gate = ggml_cont(ctx, part_of(ctx, all, 0, n_values));
    in.mixed = ggml_cont(ctx, part_of(ctx, all, n_values, of.n_channels));
    in.steps = ggml_add(ctx, ggml_cont(ctx, part_of(ctx, all, n_values + of.n_channels, of.n_heads)), w.mamba_bias);
    return in;
}

// in: of these rows  →  [d·heads, n].   Paper: Mamba 2 (Dao and Gu, 2024), section 6.
ggml_tensor * mamba2(ggml_context * ctx, const Hparams & hp, const LayerWeights & w, const RecurrentRows & rows,
                     const MambaInputs & in) {
    const RecurrentHparams & of = hp.recurrent;
    const int64_t n_values = int64_t{of.n_heads} * of.head_dim;
    ggml_tensor * tail = nullptr;
    ggml_tensor * mixed = ggml_silu(ctx, convolve(ctx, w, rows, in.mixed, tail));
    const auto heads = [&](int64_t first, int64_t width, int64_t n_heads) {
        const size_t row = mixed->nb[1];
        return ggml_view_4d(ctx, mixed, width, n_heads, rows.n_tokens, rows.n_seqs, static_cast<size_t>(width) * mixed->nb[0],
                            row, static_cast<size_t>(rows.n_tokens) * row, static_cast<size_t>(first) * mixed->nb[0]);
    };
    ggml_tensor * values = heads(0, of.head_dim, of.n_heads);
    ggml_tensor * keys = heads(n_values, of.n_state, of.n_key_heads);
    ggml_tensor * queries = heads(n_values + int64_t{of.n_key_heads} * of.n_state, of.n_state, of.n_key_heads);
    ggml_tensor * memory = ggml_reshape_4d(ctx, rows.memory, of.n_state, of.head_dim, of.n_heads, rows.n_seqs);
    ggml_tensor * steps = ggml_reshape_3d(ctx, in.steps, of.n_heads, rows.n_tokens, rows.n_seqs);
    // Whose memory is whose: the numbers from 0 on, as whole numbers.
    ggml_tensor * ids = ggml_argsort(ctx, ggml_arange(ctx, 0.0F, static_cast<float>(rows.n_seqs), 1.0F), GGML_SORT_ORDER_ASC);
    ggml_tensor * all = ggml_ssm_scan(ctx, memory, values, steps, w.mamba_a, keys, queries, ids, 1);
    const int64_t n = rows.n_tokens * rows.n_seqs;
    const size_t behind = static_cast<size_t>(n_values * n) * sizeof(float);
    if (rows.keep) { rows.keep(tail, ggml_cont(ctx, ggml_view_1d(ctx, all, of.n_memory * rows.n_seqs, behind))); }
    const size_t of_head = static_cast<size_t>(of.head_dim) * sizeof(float);
    ggml_tensor * out = ggml_view_4d(ctx, all, of.head_dim, of.n_heads, rows.n_tokens, rows.n_seqs, of_head,
                                     static_cast<size_t>(n_values) * sizeof(float),
                                     static_cast<size_t>(n_values * rows.n_tokens) * sizeof(float), 0);
    return ggml_reshape_2d(ctx, ggml_add(ctx, out, ggml_mul(ctx, values, w.mamba_skip)), n_values, n);
}

// What the memory gave times its gate, each group normed by itself. out, gate [d·heads, n].
ggml_tensor * gated_group_norm(ggml_context * ctx, const Hparams & hp, const LayerWeights & w, ggml_tensor * out,
                               ggml_tensor * gate) {
    const int64_t n_values = out->ne[0];
    const int64_t n = out->ne[1];
    out = ggml_reshape_3d(ctx, ggml_swiglu_split(ctx, gate, out), n_values / hp.recurrent.n_key_heads, hp.recurrent.n_key_heads,
                          n);
    return ggml_reshape_2d(ctx, ggml_mul(ctx, ggml_rms_norm(ctx, out, hp.norm_eps), w.mamba_norm), n_values, n);
}

// What `of_rows` makes of each run of rows, one behind the other; it is given the run, and what cuts its rows out of a tensor.
template <typename OfRows>
ggml_tensor * run_by_run(ggml_context * ctx, const std::vector<RecurrentRows> & rows, const OfRows & of_rows) {
    ggml_tensor * all = nullptr;
    int64_t first = 0;
    for (const RecurrentRows & one : rows) {
        const int64_t n = one.n_tokens * one.n_seqs;
        ggml_tensor * out = of_rows(one, [ctx, first, n](ggml_tensor * of_all) { return rows_of(ctx, of_all, first, n); });
        all = all == nullptr ? out : ggml_concat(ctx, all, out, 1);
        first += n;
    }
    return all;
}

}  // namespace

ggml_tensor * build_recurrent(ggml_context * ctx, const Hparams & hparams, const LayerWeights & weights, ggml_tensor * x,
                              std::vector<RecurrentRows> rows, MulMatFn mul_mat) {
    if (rows.empty()) { rows.push_back(from_the_beginning(ctx, hparams, x->ne[1])); }
    if (hparams.form.recurrent == Recurrent::kDeltaNet) {
        const DeltaInputs in = delta_inputs(ctx, hparams.recurrent, weights, x, mul_mat);
        ggml_tensor * out = run_by_run(ctx, rows, [&](const RecurrentRows & one, const auto & part) {
            return delta_net(ctx, hparams, weights, one, {part(in.mixed), part(in.beta), part(in.decay), nullptr});
        });
        return gated_norm(ctx, hparams, weights, out, in.gate);
    }
    if (hparams.form.recurrent == Recurrent::kMamba2) {
        const MambaInputs in = mamba_inputs(ctx, hparams.recurrent, weights, x, mul_mat);
        ggml_tensor * out = run_by_run(ctx, rows, [&](const RecurrentRows & one, const auto & part) {
            return mamba2(ctx, hparams, weights, one, {part(in.mixed), part(in.steps), nullptr});
        });
        return gated_group_norm(ctx, hparams, weights, out, in.gate);
    }
    ggml_tensor * projected = mul_mat(ctx, weights.conv_in, x);
    return run_by_run(ctx, rows, [&](const RecurrentRows & one, const auto & part) {
        return short_conv(ctx, weights, one, part(projected));
    });
}

ggml_tensor * build_recurrent_output(ggml_context * ctx, const LayerWeights & weights, ggml_tensor * x, MulMatFn mul_mat) {
    return mul_mat(ctx, weights.state_out, x);
}

size_t recurrent_nodes(size_t n_parts) {
    return 96 + 64 * n_parts;
}

}  // namespace pith
