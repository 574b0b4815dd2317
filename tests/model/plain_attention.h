// plain_attention.h - the slow, obvious forward pass: whole sequence, full f32 score matrix, no cache. Oracle of other tests.
#pragma once

#include <ggml-alloc.h>
#include <ggml-backend.h>
#include <ggml.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "device/backend.h"
#include "model/layer_graph.h"
#include "model/model_file.h"

namespace pith::testing {

// What is added to the score of `key` for `query` (positions) in query head `head`: 0 = seen, -INFINITY = not seen.
// It is added to the causal mask: keys after the query are never seen.
using MaskFn = std::function<float(int layer, int head, int query, int key)>;

// softmax(scale · K·q + mask)·V by plain products. The mask tensors are inputs: call fill() when the graph has memory.
class PlainAttention {
public:
    // weights: for sinks; nullptr where the model has none.
    explicit PlainAttention(const Hparams & hparams, MaskFn mask = {}, ggml_type kv_type = GGML_TYPE_F32,
                            const Weights * weights = nullptr)
        : hparams_(hparams), mask_(std::move(mask)), kv_type_(kv_type), weights_(weights) {}

    AttentionFn function() {
        return [this](ggml_context * ctx, ggml_cgraph *, int layer, ggml_tensor * q, ggml_tensor * k, ggml_tensor * v) {
            const int64_t n = q->ne[2];
            if (k == nullptr) {  // those of the layer that it reads
                layer = hparams_.layer(layer).kv_source;
                k = keys_.at(layer).first;
                v = keys_.at(layer).second;
            }
            keys_[layer] = {k, v};
            ggml_tensor * mask = mask_of(ctx, layer, n);
            const int window = hparams_.layer(layer).chunked ? -hparams_.layer(layer).window : hparams_.layer(layer).window;
            const float cap = hparams_.attention_softcap;
            k = rounded(ctx, k);
            v = rounded(ctx, v);
            q = ggml_permute(ctx, q, 0, 2, 1, 3);                  // [d, n, H]
            k = ggml_permute(ctx, k, 0, 2, 1, 3);                  // [d, n, K]
            v = ggml_cont(ctx, ggml_permute(ctx, v, 1, 2, 0, 3));  // [n, dv, K]
            ggml_tensor * scores = ggml_mul_mat(ctx, k, q);        // [n keys, n queries, H]
            float scale = hparams_.attention_scale;
            if (cap != 0.0F) {
                scores = ggml_scale(ctx, ggml_tanh(ctx, ggml_scale(ctx, scores, scale / cap)), cap), scale = 1.0F;
            }
            if (window != 0) { scores = ggml_add(ctx, scores, window_of(ctx, window, n)); }
            ggml_tensor * p = ggml_soft_max_ext(ctx, scores, mask, scale, 0.0F);
            ggml_tensor * sinks = weights_ == nullptr ? nullptr : weights_->layers[static_cast<size_t>(layer)].sinks;
            if (sinks != nullptr) { ggml_soft_max_add_sinks(p, sinks); }
            ggml_tensor * out = ggml_mul_mat(ctx, v, p);  // [dv, n, H]
            return ggml_cont_2d(ctx, ggml_permute(ctx, out, 0, 2, 1, 3), out->ne[0] * hparams_.n_heads, n);
        };
    }

    void fill() const {
        for (const auto & [window, tensor] : windows_) {
            const int64_t n = tensor->ne[0];
            std::vector<float> values(static_cast<size_t>(n * n));
            for (int64_t i = 0; i < n * n; ++i) {
                const int64_t query = i / n;
                const bool sees = window > 0 ? query - i % n < window : i % n >= query - query % -window;
                values[static_cast<size_t>(i)] = sees ? 0.0F : -INFINITY;
            }
            ggml_backend_tensor_set(tensor, values.data(), 0, ggml_nbytes(tensor));
        }
        for (const auto & [n, tensor] : rotations_) {
            std::vector<float> values;
            for (int64_t i = 0; i < n * n; ++i) {
                const bool odd = std::popcount(static_cast<uint64_t>(i / n & i % n)) % 2 != 0;
                values.push_back((odd ? -1.0F : 1.0F) / std::sqrt(static_cast<float>(n)));
            }
            ggml_backend_tensor_set(tensor, values.data(), 0, ggml_nbytes(tensor));
        }
        for (const auto & [layer, tensor] : masks_) {
            const int64_t n = tensor->ne[0];
            std::vector<float> values(static_cast<size_t>(ggml_nelements(tensor)));
            size_t i = 0;
            for (int h = 0; h < tensor->ne[2]; ++h) {
                for (int query = 0; query < n; ++query) {
                    for (int key = 0; key < n; ++key, ++i) {
                        const float extra = mask_ && key <= query ? mask_(layer, h, query, key) : 0.0F;
                        values[i] = key <= query ? extra : -INFINITY;
                    }
                }
            }
            ggml_backend_tensor_set(tensor, values.data(), 0, ggml_nbytes(tensor));
        }
    }

private:
    struct LayerMask {
        int layer;
        ggml_tensor *
            tensor;  // [n keys, n queries, H], or [n keys, n queries] where all layers and heads share the causal mask
    };

    // [n keys, n queries]: -INFINITY for keys that have left the window.
    ggml_tensor * window_of(ggml_context * ctx, int window, int64_t n) {
        for (const LayerMask & one : windows_) {
            if (one.layer == window) { return one.tensor; }
        }
        ggml_tensor * tensor = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, n, n);
        ggml_set_input(tensor);
        windows_.push_back({window, tensor});
        return tensor;
    }

    // What a cache of kv_type would give back: rows of quantised types are rounded as rotated ones.
    ggml_tensor * rounded(ggml_context * ctx, ggml_tensor * values) {
        if (kv_type_ == GGML_TYPE_F32) { return values; }
        const auto round = [&](ggml_tensor * x) {
            return ggml_cast(ctx, ggml_cast(ctx, ggml_cont(ctx, x), kv_type_), GGML_TYPE_F32);
        };
        if (!ggml_is_quantized(kv_type_)) { return round(values); }
        return rotated(ctx, round(rotated(ctx, ggml_cont(ctx, values))));
    }

    // By the matrix H[i][j] = (-1)^(ones that i and j have in common) / sqrt(n), n the largest power of two in the row's
    // length.
    ggml_tensor * rotated(ggml_context * ctx, ggml_tensor * values) {
        int64_t n = 1;
        while (values->ne[0] % (2 * n) == 0) { n *= 2; }
        ggml_tensor *& matrix = rotations_[n];
        if (matrix == nullptr) {
            matrix = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, n, n);
            ggml_set_input(matrix);
        }
        ggml_tensor * blocks = ggml_mul_mat(ctx, matrix, ggml_reshape_2d(ctx, values, n, ggml_nelements(values) / n));
        return ggml_reshape_3d(ctx, blocks, values->ne[0], values->ne[1], values->ne[2]);
    }

    ggml_tensor * mask_of(ggml_context * ctx, int layer, int64_t n) {
        if (!mask_ && !masks_.empty()) { return masks_.front().tensor; }
        ggml_tensor * tensor = ggml_new_tensor_3d(ctx, GGML_TYPE_F32, n, n, mask_ ? hparams_.n_heads : 1);
        ggml_set_input(tensor);
        masks_.push_back({layer, tensor});
        return tensor;
    }

    Hparams hparams_;
    MaskFn mask_;
    ggml_type kv_type_;
    const Weights * weights_;
    std::map<int, std::pair<ggml_tensor *, ggml_tensor *>> keys_;  // of each layer
    std::map<int64_t, ggml_tensor *> rotations_;                   // by their size
    std::vector<LayerMask> masks_;
    std::vector<LayerMask> windows_;  // by their width in place of a layer, negative of chunks
};

// Of each token, over all layers, by how much its last expert is before the first that is not chosen.
inline std::vector<float> least_margins(const std::vector<ggml_tensor *> & routed, int n_used, int64_t n) {
    std::vector<float> least(static_cast<size_t>(n), INFINITY);
    for (const ggml_tensor * one : routed) {
        std::vector<float> values(static_cast<size_t>(ggml_nelements(one)));
        ggml_backend_tensor_get(one, values.data(), 0, ggml_nbytes(one));
        for (size_t t = 0; t < least.size() && n_used < one->ne[0]; ++t) {
            const auto row = values.begin() + static_cast<std::ptrdiff_t>(t) * one->ne[0];
            std::sort(row, row + one->ne[0], std::greater<>());
            least[t] = std::min(least[t], row[n_used - 1] - row[n_used]);
        }
    }
    return least;
}

// Logits [n_tokens][n_vocab] of every position, by one graph over the whole sequence. With keep_rows, of these positions only.
// Empty when something fails. inputs: [layer] gets the normalised input [n][D] of its attention.
// router_margins: gets of each token what least_margins() says; infinite without experts.
// mul_mat: as sessions on the CPU have it, or ggml's, as libllama has it.
// One thread by default: these models are tiny, and ggml's waiting threads starve other tests that ctest runs beside.
inline std::vector<float> plain_logits(const ModelFile & model, const std::vector<int32_t> & tokens, MaskFn mask = {},
                                       const std::vector<int32_t> & keep_rows = {}, int n_threads = 2,
                                       ggml_type kv_type = GGML_TYPE_F32, const Weights * changed_weights = nullptr,
                                       std::vector<std::vector<float>> * inputs = nullptr,
                                       std::vector<float> * router_margins = nullptr, MulMatFn mul_mat = kGgmlMulMat) {
    const Weights & weights = changed_weights == nullptr ? model.weights() : *changed_weights;
    constexpr size_t kMaxNodes = 16384;
    const Hparams & hp = model.hparams();
    const int64_t n = static_cast<int64_t>(tokens.size());
    auto backend = make_cpu_backend(n_threads);
    if (!backend.ok()) { return {}; }
    ggml_context * ctx =
        ggml_init({kMaxNodes * ggml_tensor_overhead() + ggml_graph_overhead_custom(kMaxNodes, false), nullptr, true});
    ggml_cgraph * graph = ggml_new_graph_custom(ctx, kMaxNodes, false);

    ggml_tensor * token_input = ggml_new_tensor_1d(ctx, GGML_TYPE_I32, n);
    ggml_tensor * positions = ggml_new_tensor_1d(ctx, GGML_TYPE_I32, n);
    ggml_tensor * rows =
        keep_rows.empty() ? nullptr : ggml_new_tensor_1d(ctx, GGML_TYPE_I32, static_cast<int64_t>(keep_rows.size()));
    for (ggml_tensor * input : {token_input, positions, rows}) {
        if (input != nullptr) { ggml_set_input(input); }
    }
    PlainAttention attention(hp, std::move(mask), kv_type, &weights);
    std::vector<ggml_tensor *> taps;
    ggml_tensor * hidden = build_embedding(ctx, hp, weights, token_input);
    for (int layer = 0; layer < hp.n_layers; ++layer) {
        const InputTap tap = [&](ggml_tensor * x) {
            if (inputs == nullptr) { return; }
            ggml_set_output(x);
            taps.push_back(x);
        };
        hidden = build_layer(ctx, graph, hp, weights, layer, hidden, positions, attention.function(),
                             layer + 1 == hp.n_layers ? rows : nullptr, {}, tap, mul_mat, {}, token_input);
    }
    ggml_tensor * logits = build_head(ctx, hp, weights, hidden, mul_mat);
    ggml_set_output(logits);
    ggml_build_forward_expand(graph, logits);
    std::vector<ggml_tensor *> routed;  // by what experts are chosen, [n_experts, n]
    for (int i = 0; router_margins != nullptr && i < ggml_graph_n_nodes(graph); ++i) {
        ggml_tensor * by = ggml_graph_node(graph, i)->src[0];
        if (ggml_graph_node(graph, i)->op != GGML_OP_ARGSORT || by->ne[0] != hp.n_experts || by->ne[1] != n) { continue; }
        ggml_set_output(by);
        routed.push_back(by);
    }

    std::vector<float> result;
    ggml_gallocr_t allocator = ggml_gallocr_new(ggml_backend_get_default_buffer_type(*backend));
    if (ggml_gallocr_alloc_graph(allocator, graph)) {
        std::vector<int32_t> position_values(tokens.size());
        for (size_t i = 0; i < tokens.size(); ++i) { position_values[i] = static_cast<int32_t>(i); }
        ggml_backend_tensor_set(token_input, tokens.data(), 0, ggml_nbytes(token_input));
        if (positions->buffer != nullptr) {  // some layer rotates
            ggml_backend_tensor_set(positions, position_values.data(), 0, ggml_nbytes(positions));
        }
        if (rows != nullptr) { ggml_backend_tensor_set(rows, keep_rows.data(), 0, ggml_nbytes(rows)); }
        attention.fill();
        if (ggml_backend_graph_compute(*backend, graph) == GGML_STATUS_SUCCESS) {
            result.resize(static_cast<size_t>(ggml_nelements(logits)));
            ggml_backend_tensor_get(logits, result.data(), 0, ggml_nbytes(logits));
            if (router_margins != nullptr) { *router_margins = least_margins(routed, hp.n_experts_used, n); }
            for (const ggml_tensor * x : taps) {
                inputs->emplace_back(static_cast<size_t>(ggml_nelements(x)));
                ggml_backend_tensor_get(x, inputs->back().data(), 0, ggml_nbytes(x));
            }
        }
    }
    ggml_gallocr_free(allocator);
    ggml_free(ctx);
    ggml_backend_free(*backend);
    return result;
}

}  // namespace pith::testing
