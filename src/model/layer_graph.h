// layer_graph.h - one transformer layer as ggml operations; attention comes in as a functor. Stage: model.
// Inference and training share these builders: they use only operations that ggml can differentiate when the layer is dense,
// as long as nobody gives another product with weights (mul_mat).
//
// Notation: D hidden size, d head size, H query heads, K KV heads, n tokens. Tensors are f32 unless said.
#pragma once

#include <functional>

#include "model/arch/hparams.h"
#include "model/mul_mat.h"
#include "model/recurrent_graph.h"
#include "model/weights.h"

namespace pith {

// q [d, H, n] and k [d, K, n] after RoPE, v [dv, K, n]  →  attention output [dv·H, n], before the output projection. k and v
// are null where the layer reads another's (LayerHparams::kv_source). May expand `graph` with nodes that must run first (writes
// into a cache).
using AttentionFn = std::function<ggml_tensor *(ggml_context * ctx, ggml_cgraph * graph, int layer, ggml_tensor * q,
                                                ggml_tensor * k, ggml_tensor * v)>;

// Shown q [d, H, n] before RoPE, as build_query_rotation() takes it, and k [d, K, n], as long as the cache will have it; may
// expand the graph it captured.
using RopeTap = std::function<void(ggml_tensor * q, ggml_tensor * k)>;

// x [d, heads, n] as layer `layer` turns queries at positions i32 [n], linear in x: rotated where the layer rotates, times the
// position's temperature. Where queries are normed after that (QkNorm::kPerHeadRotated), x has been divided by its root mean
// square, and the norm's weight is still to come.
ggml_tensor * build_query_rotation(ggml_context * ctx, const Hparams & hparams, const Weights & weights, int layer,
                                   ggml_tensor * x, ggml_tensor * positions);

// k [d, heads, n] as the cache has keys of layer `layer` at positions i32 [n]  →  the same turned back: before RoPE. Where keys
// are normed behind the rotation, what the norm has done stays.
ggml_tensor * build_key_unrotation(ggml_context * ctx, const Hparams & hparams, const Weights & weights, int layer,
                                   ggml_tensor * k, ggml_tensor * positions);

// x [d, heads, n], keys of layer `layer` as the cache has them, or queries as they meet these  →  the same standing `by` i32
// [n] places further on, or back. Where they are normed behind the rotation, no weight of that norm may be 0.
ggml_tensor * build_turn(ggml_context * ctx, const Hparams & hparams, const Weights & weights, int layer, ggml_tensor * x,
                         ggml_tensor * by, bool keys);

// hidden [D, n]  →  x [D, n], the input of a layer's attention, normalised where the model does that: what a gate reads
// (gate/gate_graph.h). attn_norm: the layer's, or a copy of it [D]; null: the model has none.
ggml_tensor * build_attention_input(ggml_context * ctx, const Hparams & hparams, ggml_tensor * attn_norm, ggml_tensor * hidden);

// Shown x [D, n], the normalised input of the layer's attention.
using InputTap = std::function<void(ggml_tensor * x)>;

// tokens i32 [n]  →  hidden states [D, n].
ggml_tensor * build_embedding(ggml_context * ctx, const Hparams & hparams, const Weights & weights, ggml_tensor * tokens);

// hidden [D, n], positions i32 [n]  →  hidden [D, n] after layer `layer`.
// keep_rows (i32 [m], may be null): after attention only these rows go on, so that the result is [D, m]; for the last layer,
// where only some logits are wanted.
// tap (may be empty): sees queries and keys before RoPE.   input_tap (may be empty): sees the attention's input.
// mul_mat: the product with all weights, here and below.   recurrent: of a recurrent layer, which asks neither
// attention nor tap.   tokens (i32 [n]): where layers are told of them (Hparams::n_embd_per_layer).
ggml_tensor * build_layer(ggml_context * ctx, ggml_cgraph * graph, const Hparams & hparams, const Weights & weights, int layer,
                          ggml_tensor * hidden, ggml_tensor * positions, const AttentionFn & attention,
                          ggml_tensor * keep_rows = nullptr, const RopeTap & tap = {}, const InputTap & input_tap = {},
                          MulMatFn mul_mat = kGgmlMulMat, const RecurrentFn & recurrent = {}, ggml_tensor * tokens = nullptr);

// Room for what build_layer() adds to a graph, beside what attention, taps and recurrent layers' rows add themselves: some
// forty operations, of the widest forms about a hundred, and two for each expert that a token uses.
size_t layer_nodes(const Hparams & hparams);

// attended [dv·H, n]  →  [D, n]: the output projection with its adapter, without its bias and what comes behind.
ggml_tensor * build_output_projection(ggml_context * ctx, const Weights & weights, int layer, ggml_tensor * attended,
                                      MulMatFn mul_mat = kGgmlMulMat);

// hidden [D, n]  →  logits [n_vocab, n].
ggml_tensor * build_head(ggml_context * ctx, const Hparams & hparams, const Weights & weights, ggml_tensor * hidden,
                         MulMatFn mul_mat = kGgmlMulMat);

}  // namespace pith
