// lane_rotation.cpp - the fast transform as an operation on the CPU, a product with the matrix elsewhere.
#include "attention/lane_rotation.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "core/hadamard.h"

namespace pith {
namespace {

// Rows [d] of any strides to rows side by side, a run of them for each thread.
void rotate_rows(ggml_tensor * out, int ith, int n_threads, void * /*userdata*/) {
    const ggml_tensor * x = out->src[0];
    const auto d = static_cast<size_t>(out->ne[0]);
    const int block = hadamard_block(static_cast<int>(d));
    const int64_t n_rows = ggml_nrows(out);
    const int64_t begin = n_rows * ith / n_threads;
    const int64_t end = n_rows * (ith + 1) / n_threads;
    for (int64_t row = begin; row < end; ++row) {
        const auto * from = static_cast<const uint8_t *>(x->data) + static_cast<size_t>(row % x->ne[1]) * x->nb[1] +
                            static_cast<size_t>(row / x->ne[1]) * x->nb[2];
        float * to = static_cast<float *>(out->data) + static_cast<size_t>(row) * d;
        std::copy_n(reinterpret_cast<const float *>(from), d, to);
        rotate_hadamard({to, d}, block);
    }
}

// Rows of the matrix: one element after the other alone, rotated.
void fill_matrix(std::span<float> to, int block) {
    std::ranges::fill(to, 0.0F);
    for (size_t i = 0; i < to.size(); i += static_cast<size_t>(block) + 1) { to[i] = 1.0F; }
    rotate_hadamard(to, block);
}

}  // namespace

ggml_tensor * LaneRotation::rotated(ggml_tensor * x, bool on_device) {
    ggml_context * ctx = build_.ctx();
    if (build_.custom_operations() && !on_device) {
        ggml_tensor * args[] = {x};
        ggml_tensor * out = ggml_custom_4d(ctx, GGML_TYPE_F32, x->ne[0], x->ne[1], x->ne[2], 1, args, 1, rotate_rows,
                                           GGML_N_TASKS_MAX, nullptr);
        ggml_set_name(out, name_of(GraphPart::kAttention));
        return out;
    }
    const int block = hadamard_block(static_cast<int>(x->ne[0]));
    ggml_tensor *& matrix = matrices_[static_cast<size_t>(std::countr_zero(static_cast<unsigned>(block)))];
    if (matrix == nullptr) {
        matrix = build_.input<float>(GGML_TYPE_F32, block, block, [block](std::span<float> to) { fill_matrix(to, block); });
    }
    ggml_tensor * blocks = ggml_is_contiguous(x) ? x : ggml_cont(ctx, x);
    blocks = ggml_reshape_2d(ctx, blocks, block, ggml_nelements(x) / block);
    blocks = ggml_mul_mat(ctx, matrix, blocks);
    return ggml_reshape_3d(ctx, blocks, x->ne[0], x->ne[1], x->ne[2]);
}

ggml_tensor * LaneRotation::without_offset(int layer, ggml_tensor * k) {
    const std::span<const float> offset = layout_.key_offset(layer);
    return offset.empty() ? k : ggml_sub(build_.ctx(), k, input_of(offset, k->ne[0], k->ne[1]));
}

// The numbers live as long as the graph.
ggml_tensor * LaneRotation::input_of(std::span<const float> offset, int64_t d, int64_t n_rows) {
    return build_.input<float>(GGML_TYPE_F32, d, n_rows, [offset, all = layout_.key_offsets](std::span<float> to) {
        std::ranges::copy(offset, to.begin());
    });
}

void LaneRotation::into_lanes(int layer, ggml_tensor *& q, ggml_tensor *& k, ggml_tensor *& v) {
    if (layout_.rotates_k()) {
        q = rotated(q, on_device(layer));
        if (k != nullptr) { k = rotated(without_offset(layer, k), on_device(layer)); }
    }
    if (layout_.rotates_v() && v != nullptr) { v = rotated(v, on_device(layer)); }
}

ggml_tensor * LaneRotation::out_of_lanes(int layer, ggml_tensor * attended) {
    if (!layout_.rotates_v()) { return attended; }
    const int64_t width = attended->ne[0];
    const int64_t dv = layout_.lanes(layout_.source(layer)).head_dim_v;
    ggml_tensor * heads = ggml_reshape_3d(build_.ctx(), attended, dv, width / dv, attended->ne[1]);
    return ggml_reshape_2d(build_.ctx(), rotated(heads, on_device(layer)), width, attended->ne[1]);
}

ggml_tensor * LaneRotation::rows_as_made(int layer, int kv_head, ggml_tensor * rows, bool keys) {
    if (!(keys ? layout_.rotates_k() : layout_.rotates_v())) { return rows; }
    ggml_tensor * made = ggml_reshape_2d(build_.ctx(), rotated(rows, on_device(layer)), rows->ne[0], rows->ne[1]);
    const std::span<const float> offset = keys ? layout_.key_offset(layer, kv_head) : std::span<const float>();
    return offset.empty() ? made : ggml_add(build_.ctx(), made, input_of(offset, rows->ne[0], 1));
}

ggml_tensor * LaneRotation::keys_into_lane(int layer, int kv_head, ggml_tensor * rows) {
    if (!layout_.rotates_k()) { return rows; }
    const std::span<const float> offset = layout_.key_offset(layer, kv_head);
    if (!offset.empty()) { rows = ggml_sub(build_.ctx(), rows, input_of(offset, rows->ne[0], 1)); }
    return ggml_reshape_2d(build_.ctx(), rotated(rows, on_device(layer)), rows->ne[0], rows->ne[1]);
}

void rotate_as_made(const CacheLayout & layout, int layer, int kv_head, std::span<float> rows, int head_dim, bool keys) {
    if (!(keys ? layout.rotates_k() : layout.rotates_v())) { return; }
    rotate_hadamard(rows, hadamard_block(head_dim));
    const std::span<const float> offset = keys ? layout.key_offset(layer, kv_head) : std::span<const float>();
    if (offset.empty()) { return; }
    for (size_t first = 0; first < rows.size(); first += offset.size()) {
        for (size_t c = 0; c < offset.size(); ++c) { rows[first + c] += offset[c]; }
    }
}

}  // namespace pith
