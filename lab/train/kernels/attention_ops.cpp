// attention_ops.cpp - attention of one head and its gradient. Stage: train.
#include "train/kernels/attention_ops.h"

#include <algorithm>
#include <vector>

#include "train/kernels/gemm.h"
#include "train/kernels/gemm_bf16.h"
#include "train/kernels/masked_row_ops.h"
#include "train/kernels/row_ops.h"

namespace pith::train {
namespace {

// Queries of one block: their probabilities over all keys they see should fit the second-level cache.
int64_t block_size(int64_t n_tokens) {
    return n_tokens > 256 ? 128 : 64;
}

// Rows of a block are a little longer than they need be: rows a power of two apart would fall into the same cache sets.
constexpr int64_t kRowGap = 16;

using Memory = std::vector<float>;

float * grown(Memory & memory, int64_t size) {
    if (memory.size() < static_cast<size_t>(size)) { memory.resize(static_cast<size_t>(size)); }
    return memory.data();
}

// c(i, j) = sum_p a(i, p) b(j, p), with or without bf16.
void product(const HeadShape & s, const GemmShape & shape, const MatrixView & a, const MatrixView & b, float * c, int64_t ldc) {
    const GemmRange all{0, shape.m, 0, shape.n};
    s.bf16 ? gemm_bf16_range(shape, a, b, c, ldc, all) : gemm_range(shape, a, b, c, ldc, all);
}

// A block of queries [begin, end) over keys [0, keys).
struct Block {
    int64_t begin;
    int64_t end;
    int64_t keys;
    int64_t ld;
    int64_t size() const { return end - begin; }
};
Block block_at(const HeadShape & s, int64_t begin, int64_t size) {
    const int64_t end = std::min(s.n_tokens, begin + size);
    const int64_t keys = s.causal ? end : s.n_tokens;
    return {begin, end, keys, keys + kRowGap};
}

// The mask of query i's keys: its flags, and 1 for the most recent.
struct RowMask {
    Memory memory;
    const float * of(const KeyFlags & flags, int64_t i, int64_t n_flagged) {
        float * mask = grown(memory, i + 1);
        std::copy(flags.kept, flags.kept + n_flagged, mask);
        std::fill(mask + n_flagged, mask + i + 1, 1.0F);
        return mask;
    }
};
// Keys [0, …) of query i that its flags decide on.
int64_t n_flagged(const KeyFlags & flags, int64_t i) {
    return std::max<int64_t>(0, i + 1 - flags.n_recent);
}

// Probabilities p(key, query) at p[key + (query - begin) · ld]; for `share`, see masked_softmax_row.
void probabilities(const HeadShape & s, const KeyFlags & flags, const float * q, const float * k, const Block & b, float * p,
                   float * share) {
    thread_local RowMask mask;
    const int64_t d = s.head_dim;
    product(s, {b.keys, b.size(), d}, {k, d, 1}, {q + b.begin * d, d, 1}, p, b.ld);
    for (int64_t i = b.begin; i < b.end; ++i) {
        const int64_t row = (i - b.begin) * b.ld;
        const int64_t seen = s.causal ? i + 1 : b.keys;
        if (flags.kept == nullptr) {
            softmax_row(p + row, seen, b.keys, s.scale);
        } else {
            masked_softmax_row(p + row, mask.of(flags, i, n_flagged(flags, i)), share == nullptr ? nullptr : share + row, seen,
                               b.keys, s.scale);
        }
    }
}

int64_t vt_stride(const HeadShape & s) {
    return s.vt_stride > 0 ? s.vt_stride : s.n_tokens;
}

}  // namespace

void attention_head(const HeadShape & s, const KeyFlags & flags, const float * q, const float * k, const float * vt,
                    float * out) {
    thread_local Memory memory;
    const int64_t n = s.n_tokens;
    const int64_t d = s.head_dim;
    const int64_t size = std::min(n, block_size(n));
    float * p = grown(memory, size * (n + kRowGap));
    for (int64_t begin = 0; begin < n; begin += size) {
        const Block b = block_at(s, begin, size);
        probabilities(s, flags, q, k, b, p, nullptr);
        product(s, {d, b.size(), b.keys}, {vt, vt_stride(s), 1}, {p, b.ld, 1}, out + begin * d, d);
    }
}

void attention_head_back(const HeadShape & s, const KeyFlags & flags, const float * q, const float * k, const float * vt,
                         const float * d_out, const HeadGradients & g) {
    thread_local Memory p_memory, d_memory, part_memory, share_memory;
    const int64_t n = s.n_tokens;
    const int64_t d = s.head_dim;
    const int64_t stride = vt_stride(s);
    const int64_t block = std::min(n, block_size(n));
    float * p = grown(p_memory, block * (n + kRowGap));
    float * d_scores = grown(d_memory, block * (n + kRowGap));
    float * part = grown(part_memory, n * d);
    float * share = g.kept == nullptr ? nullptr : grown(share_memory, block * (n + kRowGap));
    const bool wants_inputs = g.q != nullptr;
    if (wants_inputs) {
        std::fill(g.k, g.k + n * d, 0.0F);
        for (int64_t i = 0; i < d; ++i) { std::fill(g.vt + i * stride, g.vt + i * stride + n, 0.0F); }
    }
    if (g.kept != nullptr) { std::fill(g.kept, g.kept + n, 0.0F); }
    for (int64_t begin = 0; begin < n; begin += block) {
        const Block b = block_at(s, begin, block);
        const int64_t size = b.size();
        probabilities(s, flags, q, k, b, p, share);
        if (wants_inputs) {
            // d_vt(key, i) += sum over queries of p(key, query) d_out(i, query)
            product(s, {b.keys, d, size}, {p, 1, b.ld}, {d_out + begin * d, 1, d}, part, b.keys);
            for (int64_t i = 0; i < d; ++i) { add_to(g.vt + i * stride, part + i * b.keys, b.keys); }
        }
        // gradient of the probabilities, then of the flags and the scores
        product(s, {b.keys, size, d}, {vt, 1, stride}, {d_out + begin * d, d, 1}, d_scores, b.ld);
        for (int64_t i = begin; i < b.end; ++i) {
            const int64_t row = (i - begin) * b.ld;
            if (share != nullptr) {
                flag_back_row(g.kept, share + row, d_scores + row, p + row, n_flagged(flags, i), s.causal ? i + 1 : b.keys);
            }
            if (wants_inputs) { softmax_back_row(d_scores + row, p + row, s.causal ? i + 1 : b.keys, b.keys, s.scale); }
        }
        if (!wants_inputs) { continue; }
        product(s, {d, size, b.keys}, {k, 1, d}, {d_scores, b.ld, 1}, g.q + begin * d, d);
        product(s, {d, b.keys, size}, {q + begin * d, 1, d}, {d_scores, 1, b.ld}, part, d);
        add_to(g.k, part, b.keys * d);
    }
}

}  // namespace pith::train
