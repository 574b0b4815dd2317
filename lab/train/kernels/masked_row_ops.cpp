// masked_row_ops.cpp - softmax over the keys that flags leave, and what a flag would change. Stage: train.
#include "train/kernels/masked_row_ops.h"

#include <algorithm>

#include "core/simd.h"

#pragma GCC diagnostic ignored "-Wpsabi"

namespace pith::train {
namespace {

constexpr float kLowest = -1e30F;
// A key that alone holds a query's attention: without it the others share it all, and 1 - p is rounding noise.
constexpr float kLeastRest = 1e-4F;

PITH_ALWAYS_INLINE FloatVec greater(const FloatVec & a, const FloatVec & b) {
    return a > b ? a : b;
}

// Calls step(i, n) for whole vectors, then for what is left.
template <class Step>
PITH_ALWAYS_INLINE void for_vectors(int64_t len, const Step & step) {
    int64_t i = 0;
    for (; i + kFloatLanes <= len; i += kFloatLanes) { step(i, kFloatLanes); }
    if (i < len) { step(i, len - i); }
}

}  // namespace

PITH_CLONES void masked_softmax_row(float * row, const float * mask, float * share, int64_t len, int64_t n, float scale) {
    const FloatVec zero{};
    const FloatVec one = zero + 1.0F;
    const FloatVec lowest = zero + kLowest;
    FloatVec best = lowest;
    for_vectors(len, [&](int64_t i, int64_t m) PITH_INLINE_LAMBDA {
        FloatVec v, on;
        load_first(v, row + i, m, kLowest);
        load_first(on, mask + i, m, 0.0F);
        best = greater(best, on > zero ? v : lowest);
    });
    const float shift = max_of(best);
    // exp(-|x|) serves keys below the best present one, and absent keys above it: these are kept as negative numbers.
    FloatVec sums{};
    for_vectors(len, [&](int64_t i, int64_t m) PITH_INLINE_LAMBDA {
        FloatVec v, on;
        load_first(v, row + i, m, kLowest);
        load_first(on, mask + i, m, 0.0F);
        v = (v - shift) * scale;
        FloatVec e = v < zero ? v : -v;
        exp_nonpositive(e);
        sums += on * e;  // present keys have v <= 0
        store_first(row + i, v > zero ? -e : e, m);
    });
    const float sum = sum_of(sums);
    const float inverse = 1.0F / sum;
    for_vectors(len, [&](int64_t i, int64_t m) PITH_INLINE_LAMBDA {
        FloatVec e, on;
        load_first(e, row + i, m, 0.0F);
        load_first(on, mask + i, m, 0.0F);
        const FloatVec p = on > zero ? e * inverse : zero;
        if (share != nullptr) {
            const FloatVec absent = e < zero ? one / (one - sum * e) : e / (sum + e);
            const FloatVec present = p / greater(one - p, zero + kLeastRest);
            store_first(share + i, on > zero ? present : absent, m);
        }
        store_first(row + i, p, m);
    });
    std::fill(row + len, row + n, 0.0F);
}

PITH_CLONES void flag_back_row(float * d_flag, const float * share, const float * grad, const float * p, int64_t n_flags,
                               int64_t len) {
    FloatVec dot{};
    for_vectors(len, [&](int64_t i, int64_t m) PITH_INLINE_LAMBDA {
        FloatVec g, w;
        load_first(g, grad + i, m, 0.0F);
        load_first(w, p + i, m, 0.0F);
        dot += g * w;
    });
    const float mean = sum_of(dot);
    for (int64_t i = 0; i < n_flags; ++i) { d_flag[i] += share[i] * (grad[i] - mean); }
}

}  // namespace pith::train
