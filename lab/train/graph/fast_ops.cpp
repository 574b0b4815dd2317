// fast_ops.cpp - exchanges slow nodes of a training graph for the trainer's own CPU code. Stage: train.
#include "train/graph/fast_ops.h"

#include <ggml.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <new>

#include "train/graph/frozen_head.h"
#include "train/graph/frozen_product.h"
#include "train/graph/gate_step.h"
#include "train/kernels/attention_ops.h"
#include "train/kernels/gemm_bf16.h"
#include "train/kernels/row_ops.h"

namespace pith::train {
namespace {

const float * data_of(const ggml_tensor * t, int64_t i2, int64_t i3) {
    return reinterpret_cast<const float *>(static_cast<const char *>(t->data) + static_cast<size_t>(i2) * t->nb[2] +
                                           static_cast<size_t>(i3) * t->nb[3]);
}
float * data_of(ggml_tensor * t, int64_t i2, int64_t i3) {
    return reinterpret_cast<float *>(static_cast<char *>(t->data) + static_cast<size_t>(i2) * t->nb[2] +
                                     static_cast<size_t>(i3) * t->nb[3]);
}
ptrdiff_t stride(const ggml_tensor * t, int dim) {
    return static_cast<ptrdiff_t>(t->nb[dim] / sizeof(float));
}

// Rows [begin, end) of n for thread ith of nth, in multiples of `unit`.
struct Share {
    int64_t begin;
    int64_t end;
};
Share share_of(int64_t n, int64_t unit, int ith, int nth) {
    const int64_t units = (n + unit - 1) / unit;
    return {std::min(n, units * ith / nth * unit), std::min(n, units * (ith + 1) / nth * unit)};
}

// MUL_MAT: dst(i, j) = sum_p a(p, i) b(p, j).   OUT_PROD: dst(i, j) = sum_p a(i, p) b(j, p).
void run_product(ggml_tensor * dst, int ith, int nth, void * userdata) {
    const auto & node = *static_cast<const FastOps::Node *>(userdata);
    const auto product = node.owner->bf16() ? gemm_bf16_range : gemm_range;
    const ggml_tensor * a = dst->src[0];
    const ggml_tensor * b = dst->src[1];
    const int outer = node.outer_product ? 0 : 1;
    const int inner = node.outer_product ? 1 : 0;
    const int64_t n_batches = dst->ne[2] * dst->ne[3];
    const bool by_batch = n_batches >= nth;
    const Share batches = by_batch ? share_of(n_batches, 1, ith, nth) : Share{0, n_batches};
    if (a->type != GGML_TYPE_F32) {  // a frozen weight, a plain matrix
        const MatrixView x{data_of(b, 0, 0), stride(b, outer), stride(b, inner)};
        auto * out = static_cast<float *>(dst->data);
        if (ith == 0 && node.outer_product) { frozen_product_back(a, x, dst->ne[1], out, node.owner->bf16()); }
        if (ith == 0 && !node.outer_product) { frozen_product(a, x, dst->ne[1], out, stride(dst, 1), node.owner->bf16()); }
        return;
    }
    GemmRange range{0, dst->ne[0], 0, dst->ne[1]};
    if (!by_batch && dst->ne[1] >= kGemmTileM * nth) {
        const Share s = share_of(dst->ne[1], kGemmTileM, ith, nth);
        range.j_begin = s.begin;
        range.j_end = s.end;
    } else if (!by_batch) {
        const Share s = share_of(dst->ne[0], kGemmTileM, ith, nth);
        range.i_begin = s.begin;
        range.i_end = s.end;
    }
    for (int64_t n = batches.begin; n < batches.end; ++n) {
        const int64_t i2 = n % dst->ne[2];
        const int64_t i3 = n / dst->ne[2];
        const MatrixView av{data_of(a, i2 / (dst->ne[2] / a->ne[2]), i3 / (dst->ne[3] / a->ne[3])), stride(a, outer),
                            stride(a, inner)};
        const MatrixView bv{data_of(b, i2 / (dst->ne[2] / b->ne[2]), i3 / (dst->ne[3] / b->ne[3])), stride(b, outer),
                            stride(b, inner)};
        product({dst->ne[0], dst->ne[1], a->ne[inner]}, av, bv, data_of(dst, i2, i3), stride(dst, 1), range);
    }
}

// Head h of the batch: its shape, its flags.
HeadShape head_shape(const FastOps::Node & node, const ggml_tensor * q, int64_t h) {
    HeadShape shape{q->ne[1], q->ne[0], node.scale, node.owner->bf16(), true, q->ne[1]};
    if (const GateStep * global = node.attention->global; global != nullptr) {
        const auto n_seq = static_cast<int64_t>(global->n_gated.size());
        shape.n_tokens = global->n_gated[static_cast<size_t>(h / (q->ne[2] / n_seq))];
        shape.causal = global->config.causal;
    }
    return shape;
}
KeyFlags key_flags(const FastOps::Node & node, const ggml_tensor * flags, int64_t h) {
    return {flags == nullptr ? nullptr : data_of(flags, h, 0), node.attention->n_recent};
}

// Columns [begin, end) of each of n rows become 0.
void clear_tail(float * rows, int64_t n, int64_t begin, int64_t end) {
    for (int64_t r = 0; r < n && begin < end; ++r) { std::fill(rows + r * end + begin, rows + (r + 1) * end, 0.0F); }
}

// src: q, k, vt, flags (may be null)  →  out [d, T, heads]
void run_attention(ggml_tensor * dst, int ith, int nth, void * userdata) {
    const auto & node = *static_cast<const FastOps::Node *>(userdata);
    const ggml_tensor * q = dst->src[0];
    const Share s = share_of(dst->ne[2], 1, ith, nth);
    for (int64_t h = s.begin; h < s.end; ++h) {
        const HeadShape shape = head_shape(node, q, h);
        attention_head(shape, key_flags(node, dst->src[3], h), data_of(q, h, 0), data_of(dst->src[1], h, 0),
                       data_of(dst->src[2], h, 0), data_of(dst, h, 0));
        clear_tail(data_of(dst, h, 0), 1, shape.n_tokens * q->ne[0], q->ne[1] * q->ne[0]);
    }
}

// src: q, k, vt, gradient of out, flags (may be null)  →  the gradients of q, k, vt [d·T, heads] and of the flags [T, heads],
// one after the other
void run_attention_back(ggml_tensor * dst, int ith, int nth, void * userdata) {
    const auto & node = *static_cast<const FastOps::Node *>(userdata);
    const ggml_tensor * q = dst->src[0];
    const ggml_tensor * flags = dst->src[4];
    const int64_t d = q->ne[0];
    const int64_t n = q->ne[1];
    const int64_t heads = q->ne[2];
    auto * data = static_cast<float *>(dst->data);
    const Share s = share_of(heads, 1, ith, nth);
    for (int64_t h = s.begin; h < s.end; ++h) {
        const HeadShape shape = head_shape(node, q, h);
        HeadGradients g;
        if (node.wants_inputs) {
            g.q = data + h * d * n;
            g.k = g.q + heads * d * n;
            g.vt = g.k + heads * d * n;
        }
        if (flags != nullptr) { g.kept = data + 3 * heads * d * n + h * n; }
        attention_head_back(shape, key_flags(node, flags, h), data_of(q, h, 0), data_of(dst->src[1], h, 0),
                            data_of(dst->src[2], h, 0), data_of(dst->src[3], h, 0), g);
        if (node.wants_inputs) {
            clear_tail(g.q, 1, shape.n_tokens * d, n * d);
            clear_tail(g.k, 1, shape.n_tokens * d, n * d);
            clear_tail(g.vt, d, shape.n_tokens, n);
        }
    }
}

// src: weight, x  →  the gradient of x; a single number when that is not wanted
void run_head(ggml_tensor * dst, int ith, int, void * userdata) {
    if (ith != 0) { return; }
    const auto & node = *static_cast<const FastOps::Node *>(userdata);
    const ggml_tensor * x = dst->src[1];
    frozen_head(dst->src[0], static_cast<const float *>(x->data), x->ne[1], *node.owner->loss(),
                node.wants_inputs ? static_cast<float *>(dst->data) : nullptr, node.owner->bf16());
}
// The loss itself is in Loss.
void run_nothing(ggml_tensor * dst, int ith, int, void *) {
    if (ith == 0) { static_cast<float *>(dst->data)[0] = 0.0F; }
}

void run_gate(ggml_tensor * dst, int ith, int, void * userdata) {
    const auto & node = *static_cast<const FastOps::Node *>(userdata);
    if (ith == 0) {
        node.step->threshold(node.layer, static_cast<const float *>(dst->src[0]->data), static_cast<float *>(dst->data));
    }
}

// src: gradient of the flags, logits
void run_gate_back(ggml_tensor * dst, int ith, int, void * userdata) {
    const auto & node = *static_cast<const FastOps::Node *>(userdata);
    if (ith == 0) {
        node.step->back(node.layer, static_cast<const float *>(dst->src[1]->data),
                        static_cast<const float *>(dst->src[0]->data), static_cast<float *>(dst->data));
    }
}

void run_loss(ggml_tensor * dst, int ith, int nth, void * userdata) {
    Loss & loss = *static_cast<const FastOps::Node *>(userdata)->owner->loss();
    const ggml_tensor * logits = dst->src[0];
    const Share s = share_of(logits->ne[1], 1, ith, nth);
    for (int64_t r = s.begin; r < s.end; ++r) {
        const auto i = static_cast<size_t>(r);
        const auto * row = static_cast<const float *>(logits->data) + r * logits->ne[0];
        loss.nll[i] = 0.0F;
        loss.hit[i] = 0;
        if (loss.weights[i] > 0.0F) { loss.nll[i] = row_nll(row, logits->ne[0], loss.targets[i], loss.hit[i]); }
    }
}

void run_loss_back(ggml_tensor * dst, int ith, int nth, void * userdata) {
    const Loss & loss = *static_cast<const FastOps::Node *>(userdata)->owner->loss();
    const ggml_tensor * logits = dst->src[0];
    const Share s = share_of(logits->ne[1], 1, ith, nth);
    for (int64_t r = s.begin; r < s.end; ++r) {
        const auto i = static_cast<size_t>(r);
        const auto * row = static_cast<const float *>(logits->data) + r * logits->ne[0];
        auto * out = static_cast<float *>(dst->data) + r * logits->ne[0];
        const float weight = loss.weights[i] * loss.scale;
        if (weight > 0.0F) {
            row_nll_gradient(row, out, logits->ne[0], loss.targets[i], weight);
        } else {
            std::fill(out, out + logits->ne[0], 0.0F);
        }
    }
}

// src [ne0, r1·ne1, r2·ne2, r3·ne3]  →  dst [ne0, ne1, ne2, ne3]: the sum of all repeats. Rows of dst in turn; a dst of
// few rows (a norm's weight) is split along the row instead.
void run_repeat_back(ggml_tensor * dst, int ith, int nth, void *) {
    const ggml_tensor * src = dst->src[0];
    const int64_t n_rows = ggml_nrows(dst);
    const bool split_rows = n_rows >= nth;
    const Share rows = split_rows ? share_of(n_rows, 1, ith, nth) : Share{0, n_rows};
    const Share cols = split_rows ? Share{0, dst->ne[0]} : share_of(dst->ne[0], 16, ith, nth);
    const size_t begin = static_cast<size_t>(cols.begin);
    const int64_t n = cols.end - cols.begin;
    const int64_t repeats0 = src->ne[0] / dst->ne[0];
    for (int64_t r = rows.begin; r < rows.end; ++r) {
        const int64_t i1 = r % dst->ne[1];
        const int64_t i2 = r / dst->ne[1] % dst->ne[2];
        const int64_t i3 = r / dst->ne[1] / dst->ne[2];
        float * out = data_of(dst, i2, i3) + i1 * stride(dst, 1) + begin;
        std::fill(out, out + n, 0.0F);
        for (int64_t j3 = i3; j3 < src->ne[3]; j3 += dst->ne[3]) {
            for (int64_t j2 = i2; j2 < src->ne[2]; j2 += dst->ne[2]) {
                const float * base = data_of(src, j2, j3) + begin;
                for (int64_t j1 = i1; j1 < src->ne[1]; j1 += dst->ne[1]) {
                    for (int64_t j0 = 0; j0 < repeats0; ++j0) { add_to(out, base + j1 * stride(src, 1) + j0 * dst->ne[0], n); }
                }
            }
        }
    }
}

void run_silu_back(ggml_tensor * dst, int ith, int nth, void *) {
    const Share s = share_of(ggml_nelements(dst), 16, ith, nth);
    silu_back(static_cast<const float *>(dst->src[0]->data) + s.begin, static_cast<const float *>(dst->src[1]->data) + s.begin,
              static_cast<float *>(dst->data) + s.begin, s.end - s.begin);
}

// An operation of ggml's, which knows no exceptions: where there is no memory the graph goes on, and its owner says so.
template <ggml_custom_op_t run>
void or_fail(ggml_tensor * dst, int ith, int nth, void * userdata) {
    try {
        run(dst, ith, nth, userdata);
    } catch (const std::bad_alloc &) { static_cast<const FastOps::Node *>(userdata)->owner->fail(); }
}

void make_custom(ggml_tensor * node, const ggml_tensor * donor, const char * name) {
    ggml_set_name(node, name);
    node->op = GGML_OP_CUSTOM;
    std::memcpy(node->op_params, donor->op_params, sizeof(node->op_params));
}

// `node` becomes a view of `source`, `offset` bytes into it.
void make_view(ggml_tensor * node, ggml_tensor * source, size_t offset) {
    std::fill(node->src, node->src + GGML_MAX_SRC, nullptr);
    std::memset(node->op_params, 0, sizeof(node->op_params));
    node->op = GGML_OP_VIEW;
    node->src[0] = source;
    node->view_src = source;
    node->view_offs = offset;
    std::memcpy(node->op_params, &node->view_offs, sizeof(node->view_offs));
}

bool all_contiguous_f32(const ggml_tensor * node) {
    for (const ggml_tensor * t : {static_cast<const ggml_tensor *>(node), static_cast<const ggml_tensor *>(node->src[0]),
                                  static_cast<const ggml_tensor *>(node->src[1])}) {
        if (t != nullptr && (t->type != GGML_TYPE_F32 || !ggml_is_contiguous(t))) { return false; }
    }
    return true;
}

}  // namespace

FastOps::Node * FastOps::new_node() {
    nodes_.emplace_back();
    nodes_.back().owner = this;
    return &nodes_.back();
}

void FastOps::add_attention(const Attention & attention) {
    attentions_.push_back(attention);
}

void FastOps::add_gate(ggml_tensor * flags, GateStep * step, int layer) {
    gates_.push_back({flags, step, layer});
}

// The product that makes `out` becomes the whole attention. The backward that ggml made of it are outer products,
//   d_q = k × d_scoresᵀ,   d_k = q × d_scores,   d_vt = p × d_out,   d_p = vt × d_outᵀ,
// known by their first operand; the flags' is a sum of d_scores. Those that are wanted become views of one operation that
// computes them all.
void FastOps::exchange_attention(ggml_context * ctx, ggml_cgraph * graph, const Attention & attention) {
    Node * info = new_node();
    info->attention = &attention;
    std::memcpy(&info->scale, attention.p->op_params, sizeof(float));
    ggml_tensor * out = attention.out;
    make_custom(out, ggml_custom_4d(ctx, GGML_TYPE_F32, 1, 1, 1, 1, nullptr, 0, or_fail<run_attention>, GGML_N_TASKS_MAX, info),
                "attention");
    out->src[0] = attention.q;
    out->src[1] = attention.k;
    out->src[2] = attention.vt;
    out->src[3] = attention.flags;

    ggml_tensor * gradients[4] = {};
    ggml_tensor * d_out = nullptr;
    for (int i = 0; i < ggml_graph_n_nodes(graph); ++i) {
        ggml_tensor * node = ggml_graph_node(graph, i);
        if (node->op != GGML_OP_OUT_PROD) { continue; }
        if (node->src[0] == attention.k) { gradients[0] = node; }
        if (node->src[0] == attention.q) { gradients[1] = node; }
        if (node->src[0] == attention.p) {
            gradients[2] = node;
            d_out = node->src[1];
        }
        if (node->src[0] == attention.vt) { d_out = node->src[1]->src[0]; }
    }
    if (d_out == nullptr) { return; }  // a graph without backward
    if (attention.flags != nullptr) { gradients[3] = ggml_graph_get_grad(graph, attention.flags); }
    Node * back = new_node();
    *back = *info;
    back->wants_inputs = gradients[0] != nullptr || gradients[1] != nullptr || gradients[2] != nullptr;
    ggml_tensor * args[5] = {attention.q, attention.k, attention.vt, d_out, attention.flags};
    const int64_t part = ggml_nelements(attention.q);
    const int64_t size = 3 * part + (attention.flags == nullptr ? 0 : ggml_nelements(attention.flags));
    ggml_tensor * all = ggml_custom_4d(ctx, GGML_TYPE_F32, size, 1, 1, 1, args, attention.flags == nullptr ? 4 : 5,
                                       or_fail<run_attention_back>, GGML_N_TASKS_MAX, back);
    ggml_set_name(all, "attention back");
    for (size_t i = 0; i < 4; ++i) {
        ggml_tensor * g = gradients[i];
        if (g == nullptr) { continue; }
        make_view(g, all, i * static_cast<size_t>(part) * sizeof(float));
    }
}

void FastOps::add_frozen_head(ggml_tensor * logits, ggml_tensor * loss) {
    frozen_logits_ = logits;
    frozen_loss_ = loss;
}

// The gradient of x = weight × d_logitsᵀ becomes a view of what the one operation left.
void FastOps::exchange_head(ggml_context * ctx, ggml_cgraph * graph) {
    ggml_tensor * weight = frozen_logits_->src[0];
    ggml_tensor * x = frozen_logits_->src[1];
    ggml_tensor * gradient = nullptr;
    for (int i = 0; i < ggml_graph_n_nodes(graph); ++i) {
        ggml_tensor * node = ggml_graph_node(graph, i);
        if (node->op == GGML_OP_OUT_PROD && node->src[0] == weight) { gradient = node; }
    }
    Node * info = new_node();
    info->wants_inputs = gradient != nullptr;
    ggml_tensor * args[2] = {weight, x};
    ggml_tensor * head = ggml_custom_4d(ctx, GGML_TYPE_F32, gradient == nullptr ? 1 : x->ne[0],
                                        gradient == nullptr ? 1 : x->ne[1], 1, 1, args, 2, or_fail<run_head>, 1, info);
    ggml_set_name(head, "head");
    make_custom(frozen_loss_, ggml_custom_4d(ctx, GGML_TYPE_F32, 1, 1, 1, 1, nullptr, 0, or_fail<run_nothing>, 1, info),
                "loss");
    frozen_loss_->src[0] = head;
    frozen_loss_->src[1] = nullptr;
    if (gradient != nullptr) { make_view(gradient, head, 0); }
}

void FastOps::exchange_gate(ggml_context * ctx, ggml_cgraph * graph, const Gate & gate) {
    Node * info = new_node();
    info->step = gate.step;
    info->layer = gate.layer;
    const auto donor = [&](ggml_custom_op_t run) {
        return ggml_custom_4d(ctx, GGML_TYPE_F32, 1, 1, 1, 1, nullptr, 0, run, 1, info);
    };
    const ggml_tensor * logits = gate.flags->src[0];
    make_custom(gate.flags, donor(or_fail<run_gate>), "gate");
    for (int i = 0; i < ggml_graph_n_nodes(graph); ++i) {
        ggml_tensor * node = ggml_graph_node(graph, i);
        if (node->op == GGML_OP_SILU_BACK && node->src[1] == logits) {
            make_custom(node, donor(or_fail<run_gate_back>), "gate back");
        }
    }
}

void FastOps::exchange(ggml_context * ctx, ggml_cgraph * graph) {
    for (const Attention & attention : attentions_) { exchange_attention(ctx, graph, attention); }
    for (const Gate & gate : gates_) { exchange_gate(ctx, graph, gate); }
    if (frozen_logits_ != nullptr) { exchange_head(ctx, graph); }
    for (int i = 0; i < ggml_graph_n_nodes(graph); ++i) {
        ggml_tensor * node = ggml_graph_node(graph, i);
        ggml_custom_op_t run = nullptr;
        Node * info = nullptr;
        switch (node->op) {
            case GGML_OP_MUL_MAT:
            case GGML_OP_OUT_PROD:
                info = new_node();
                info->outer_product = node->op == GGML_OP_OUT_PROD;
                run = or_fail<run_product>;
                break;
            case GGML_OP_CROSS_ENTROPY_LOSS:
                node->src[1] = nullptr;
                run = or_fail<run_loss>;
                break;
            case GGML_OP_CROSS_ENTROPY_LOSS_BACK:  // (gradient of the loss, logits, labels)
                node->src[0] = node->src[1];
                node->src[1] = node->src[2] = nullptr;
                run = or_fail<run_loss_back>;
                break;
            case GGML_OP_REPEAT_BACK:
                run = or_fail<run_repeat_back>;
                break;
            case GGML_OP_SILU_BACK:
                if (all_contiguous_f32(node)) { run = or_fail<run_silu_back>; }
                break;
            default:
                break;
        }
        if (run == nullptr) { continue; }
        if (info == nullptr) { info = new_node(); }
        const ggml_tensor * donor = ggml_custom_4d(ctx, GGML_TYPE_F32, 1, 1, 1, 1, nullptr, 0, run, GGML_N_TASKS_MAX, info);
        make_custom(node, donor,
                    run == run_product ? (info->outer_product ? "outer product" : "product") : ggml_op_name(node->op));
    }
}

}  // namespace pith::train
