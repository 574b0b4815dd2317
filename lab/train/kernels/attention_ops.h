// attention_ops.h - attention of one head and its gradient, block of queries by block of queries. Stage: train.
// Pure C++: no ggml, no I/O. The matrix of probabilities never exists whole: a block stays in the cache, and the backward
// computes it again, which costs less than bringing it back from memory.
//
//   q, k, out   f32 [d, T], d contiguous        vt   f32 [T, d], T contiguous, rows `stride` apart
//   out = vt · softmax(scale · kᵀq)
// Causal: query i sees keys 0 … i; of these, with flags, those with kept[j] = 1 and the n_recent last ones.
// Cost: O(T²·d / 2) causal, O(T²·d) else.   Threads: reentrant.
// Source: the recomputation is FlashAttention's (Dao et al., 2022); the softmax here is plain, over whole rows.
#pragma once

#include <cstdint>

namespace pith::train {

struct HeadShape {
    int64_t n_tokens = 0;  // T
    int64_t head_dim = 0;  // d
    float scale = 1.0F;
    bool bf16 = false;  // products by gemm_bf16_range
    bool causal = true;
    int64_t vt_stride = 0;  // of vt's rows; 0: T
};

// Which keys are masked, of a causal head. kept f32 [T], 1 or 0; null: none is.
struct KeyFlags {
    const float * kept = nullptr;
    int64_t n_recent = 1;
};

void attention_head(const HeadShape & shape, const KeyFlags & flags, const float * q, const float * k, const float * vt,
                    float * out);

struct HeadGradients {
    float * q = nullptr;     // [d, T]; null: q, k and vt are not wanted
    float * k = nullptr;     // [d, T]
    float * vt = nullptr;    // [T, d], rows vt_stride apart
    float * kept = nullptr;  // [T]; null: not wanted
};
// From the gradient of out (d_out [d, T]); overwritten. A flag is a whole number, so its "gradient" is the difference it makes:
//   sum over queries of d_out · (out with the key - out without it), all other flags as they are.
void attention_head_back(const HeadShape & shape, const KeyFlags & flags, const float * q, const float * k, const float * vt,
                         const float * d_out, const HeadGradients & gradients);

}  // namespace pith::train
