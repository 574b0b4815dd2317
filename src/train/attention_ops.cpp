// attention_ops.cpp - causal attention of one head and its gradient. Stage: train.
#include "train/attention_ops.h"

#include <algorithm>
#include <vector>

#include "train/gemm.h"
#include "train/gemm_bf16.h"
#include "train/row_ops.h"

namespace pith::train {
namespace {

// Queries of one block: their probabilities over all keys before them should fit the second-level cache.
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

// Probabilities of queries [begin, end) over keys [0, end): p(key, query) at p[key + (query - begin) · ld].
void probabilities(const HeadShape & s, const float * q, const float * k, int64_t begin, int64_t end, float * p, int64_t ld) {
    const int64_t d = s.head_dim;
    product(s, {end, end - begin, d}, {k, d, 1}, {q + begin * d, d, 1}, p, ld);
    for (int64_t j = begin; j < end; ++j) { softmax_row(p + (j - begin) * ld, j + 1, end, s.scale); }
}

}  // namespace

void attention_head(const HeadShape & s, const float * q, const float * k, const float * vt, float * out) {
    thread_local Memory memory;
    const int64_t n = s.n_tokens;
    const int64_t d = s.head_dim;
    const int64_t block = std::min(n, block_size(n));
    float * p = grown(memory, block * (n + kRowGap));
    for (int64_t begin = 0; begin < n; begin += block) {
        const int64_t end = std::min(n, begin + block);
        const int64_t ld = end + kRowGap;
        probabilities(s, q, k, begin, end, p, ld);
        product(s, {d, end - begin, end}, {vt, n, 1}, {p, ld, 1}, out + begin * d, d);
    }
}

void attention_head_back(const HeadShape & s, const float * q, const float * k, const float * vt, const float * d_out,
                         float * d_q, float * d_k, float * d_vt) {
    thread_local Memory p_memory, d_memory, part_memory;
    const int64_t n = s.n_tokens;
    const int64_t d = s.head_dim;
    const int64_t block = std::min(n, block_size(n));
    float * p = grown(p_memory, block * (n + kRowGap));
    float * d_scores = grown(d_memory, block * (n + kRowGap));
    float * part = grown(part_memory, n * d);
    std::fill(d_k, d_k + n * d, 0.0F);
    std::fill(d_vt, d_vt + n * d, 0.0F);
    for (int64_t begin = 0; begin < n; begin += block) {
        const int64_t end = std::min(n, begin + block);
        const int64_t ld = end + kRowGap;
        const int64_t size = end - begin;
        probabilities(s, q, k, begin, end, p, ld);
        // d_vt(key, i) += sum over queries of p(key, query) d_out(i, query)
        product(s, {end, d, size}, {p, 1, ld}, {d_out + begin * d, 1, d}, part, end);
        for (int64_t i = 0; i < d; ++i) { add_to(d_vt + i * n, part + i * end, end); }
        // gradient of the probabilities, then of the scores
        product(s, {end, size, d}, {vt, 1, n}, {d_out + begin * d, d, 1}, d_scores, ld);
        for (int64_t j = begin; j < end; ++j) {
            softmax_back_row(d_scores + (j - begin) * ld, p + (j - begin) * ld, j + 1, end, s.scale);
        }
        product(s, {d, size, end}, {k, 1, d}, {d_scores, ld, 1}, d_q + begin * d, d);
        product(s, {d, end, size}, {q + begin * d, 1, d}, {d_scores, 1, ld}, part, d);
        add_to(d_k, part, end * d);
    }
}

}  // namespace pith::train
