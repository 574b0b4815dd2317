// fast_ops.cpp - exchanges slow nodes of a training graph for the trainer's own CPU code. Stage: train.
#include "train/fast_ops.h"

#include <ggml.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "train/attention_ops.h"
#include "train/gemm_bf16.h"
#include "train/row_ops.h"

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

HeadShape head_shape(const FastOps::Node & node, const ggml_tensor * q) {
    return {q->ne[1], q->ne[0], node.scale, node.owner->bf16()};
}

// src: q, k, vt  →  out [d, T, heads]
void run_attention(ggml_tensor * dst, int ith, int nth, void * userdata) {
    const HeadShape shape = head_shape(*static_cast<const FastOps::Node *>(userdata), dst->src[0]);
    const Share s = share_of(dst->ne[2], 1, ith, nth);
    for (int64_t h = s.begin; h < s.end; ++h) {
        attention_head(shape, data_of(dst->src[0], h, 0), data_of(dst->src[1], h, 0), data_of(dst->src[2], h, 0),
                       data_of(dst, h, 0));
    }
}

// src: q, k, vt, gradient of out  →  [d·T, heads, 3]: the gradients of q, k and vt
void run_attention_back(ggml_tensor * dst, int ith, int nth, void * userdata) {
    const HeadShape shape = head_shape(*static_cast<const FastOps::Node *>(userdata), dst->src[0]);
    const Share s = share_of(dst->ne[1], 1, ith, nth);
    for (int64_t h = s.begin; h < s.end; ++h) {
        const auto part = [&](int64_t i) { return data_of(dst, i, 0) + h * stride(dst, 1); };
        attention_head_back(shape, data_of(dst->src[0], h, 0), data_of(dst->src[1], h, 0), data_of(dst->src[2], h, 0),
                            data_of(dst->src[3], h, 0), part(0), part(1), part(2));
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

void make_custom(ggml_tensor * node, const ggml_tensor * donor, const char * name) {
    ggml_set_name(node, name);
    node->op = GGML_OP_CUSTOM;
    std::memcpy(node->op_params, donor->op_params, sizeof(node->op_params));
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

// The product that makes `out` becomes the whole attention. The backward that ggml made of it are outer products,
//   d_q = k × d_scoresᵀ,   d_k = q × d_scores,   d_vt = p × d_out,
// known by their first operand: they become views of one operation that computes all three.
void FastOps::exchange_attention(ggml_context * ctx, ggml_cgraph * graph, const Attention & attention) {
    Node * info = new_node();
    std::memcpy(&info->scale, attention.p->op_params, sizeof(float));
    ggml_tensor * out = attention.out;
    make_custom(out, ggml_custom_4d(ctx, GGML_TYPE_F32, 1, 1, 1, 1, nullptr, 0, run_attention, GGML_N_TASKS_MAX, info),
                "attention");
    out->src[0] = attention.q;
    out->src[1] = attention.k;
    out->src[2] = attention.vt;

    ggml_tensor * gradients[3] = {};
    for (int i = 0; i < ggml_graph_n_nodes(graph); ++i) {
        ggml_tensor * node = ggml_graph_node(graph, i);
        if (node->op != GGML_OP_OUT_PROD) { continue; }
        if (node->src[0] == attention.k) { gradients[0] = node; }
        if (node->src[0] == attention.q) { gradients[1] = node; }
        if (node->src[0] == attention.p) { gradients[2] = node; }
    }
    if (gradients[2] == nullptr) { return; }  // a graph without backward
    ggml_tensor * args[4] = {attention.q, attention.k, attention.vt, gradients[2]->src[1]};
    const int64_t head_size = attention.q->ne[0] * attention.q->ne[1];
    ggml_tensor * all = ggml_custom_4d(ctx, GGML_TYPE_F32, head_size, attention.q->ne[2], 3, 1, args, 4, run_attention_back,
                                       GGML_N_TASKS_MAX, info);
    ggml_set_name(all, "attention back");
    for (size_t i = 0; i < 3; ++i) {
        ggml_tensor * g = gradients[i];
        std::fill(g->src, g->src + GGML_MAX_SRC, nullptr);
        std::memset(g->op_params, 0, sizeof(g->op_params));
        g->op = GGML_OP_VIEW;
        g->src[0] = all;
        g->view_src = all;
        g->view_offs = i * all->nb[2];
        std::memcpy(g->op_params, &g->view_offs, sizeof(g->view_offs));
    }
}

void FastOps::exchange(ggml_context * ctx, ggml_cgraph * graph) {
    for (const Attention & attention : attentions_) { exchange_attention(ctx, graph, attention); }
    for (int i = 0; i < ggml_graph_n_nodes(graph); ++i) {
        ggml_tensor * node = ggml_graph_node(graph, i);
        ggml_custom_op_t run = nullptr;
        Node * info = nullptr;
        switch (node->op) {
            case GGML_OP_MUL_MAT:
            case GGML_OP_OUT_PROD:
                info = new_node();
                info->outer_product = node->op == GGML_OP_OUT_PROD;
                run = run_product;
                break;
            case GGML_OP_CROSS_ENTROPY_LOSS:
                node->src[1] = nullptr;
                run = run_loss;
                break;
            case GGML_OP_CROSS_ENTROPY_LOSS_BACK:  // (gradient of the loss, logits, labels)
                node->src[0] = node->src[1];
                node->src[1] = node->src[2] = nullptr;
                run = run_loss_back;
                break;
            case GGML_OP_REPEAT_BACK:
                run = run_repeat_back;
                break;
            case GGML_OP_SILU_BACK:
                if (all_contiguous_f32(node)) { run = run_silu_back; }
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
