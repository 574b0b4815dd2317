// attention_ops.h - causal attention of one head and its gradient, block of queries by block of queries. Stage: train.
// Pure C++: no ggml, no I/O. The matrix of probabilities never exists whole: a block stays in the cache, and the backward
// computes it again, which costs less than bringing it back from memory.
//
//   q, k, out   f32 [d, T], d contiguous        vt   f32 [T, d], T contiguous
//   out = vt · softmax(scale · kᵀq), query j sees keys 0 … j
// Cost: O(T²·d / 2).   Threads: reentrant.
// Source: the recomputation is FlashAttention's (Dao et al., 2022); the softmax here is plain, over whole rows.
#pragma once

#include <cstdint>

namespace pith::train {

struct HeadShape {
    int64_t n_tokens = 0;  // T
    int64_t head_dim = 0;  // d
    float scale = 1.0F;
    bool bf16 = false;  // products by gemm_bf16_range
};

void attention_head(const HeadShape & shape, const float * q, const float * k, const float * vt, float * out);

// From the gradient of out (d_out [d, T]): d_q, d_k [d, T], d_vt [T, d], overwritten.
void attention_head_back(const HeadShape & shape, const float * q, const float * k, const float * vt, const float * d_out,
                         float * d_q, float * d_k, float * d_vt);

}  // namespace pith::train
