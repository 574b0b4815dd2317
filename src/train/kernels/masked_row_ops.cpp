// masked_row_ops.cpp - softmax over the keys that flags leave, and what a flag would change. Stage: train.
#include "train/kernels/masked_row_ops.h"

#include <algorithm>

#include "train/kernels/simd.h"

#pragma GCC diagnostic ignored "-Wpsabi"

namespace pith::train {
namespace {

constexpr float kLowest = -1e30F;
// A key that alone holds a query's attention: without it the others share it all, and 1 - p is rounding noise.
constexpr float kLeastRest = 1e-4F;

PITH_INLINE Vec greater(const Vec & a, const Vec & b) {
    return a > b ? a : b;
}

// Calls step(i, n) for whole vectors, then for what is left.
template <class Step>
PITH_INLINE void for_vectors(int64_t len, const Step & step) {
    int64_t i = 0;
    for (; i + kVecSize <= len; i += kVecSize) { step(i, kVecSize); }
    if (i < len) { step(i, len - i); }
}
PITH_INLINE void get(Vec & v, const float * p, int64_t n, float fill) {
    if (n == kVecSize) {
        load(v, p);
        return;
    }
    float values[kVecSize];
    std::fill(values, values + kVecSize, fill);
    std::memcpy(values, p, static_cast<size_t>(n) * sizeof(float));
    load(v, values);
}
PITH_INLINE void put(float * p, const Vec & v, int64_t n) {
    if (n == kVecSize) {
        store(p, v);
        return;
    }
    float values[kVecSize];
    store(values, v);
    std::memcpy(p, values, static_cast<size_t>(n) * sizeof(float));
}

}  // namespace

PITH_MULTIVERSION void masked_softmax_row(float * row, const float * mask, float * share, int64_t len, int64_t n, float scale) {
    const Vec zero{};
    const Vec one = zero + 1.0F;
    const Vec lowest = zero + kLowest;
    Vec best = lowest;
    for_vectors(len, [&](int64_t i, int64_t m) PITH_LAMBDA_INLINE {
        Vec v, on;
        get(v, row + i, m, kLowest);
        get(on, mask + i, m, 0.0F);
        best = greater(best, on > zero ? v : lowest);
    });
    const float shift = max_of(best);
    // exp(-|x|) serves keys below the best present one, and absent keys above it: these are kept as negative numbers.
    Vec sums{};
    for_vectors(len, [&](int64_t i, int64_t m) PITH_LAMBDA_INLINE {
        Vec v, on;
        get(v, row + i, m, kLowest);
        get(on, mask + i, m, 0.0F);
        v = (v - shift) * scale;
        Vec e = v < zero ? v : -v;
        exp_nonpositive(e);
        sums += on * e;  // present keys have v <= 0
        put(row + i, v > zero ? -e : e, m);
    });
    const float sum = sum_of(sums);
    const float inverse = 1.0F / sum;
    for_vectors(len, [&](int64_t i, int64_t m) PITH_LAMBDA_INLINE {
        Vec e, on;
        get(e, row + i, m, 0.0F);
        get(on, mask + i, m, 0.0F);
        const Vec p = on > zero ? e * inverse : zero;
        if (share != nullptr) {
            const Vec absent = e < zero ? one / (one - sum * e) : e / (sum + e);
            const Vec present = p / greater(one - p, zero + kLeastRest);
            put(share + i, on > zero ? present : absent, m);
        }
        put(row + i, p, m);
    });
    std::fill(row + len, row + n, 0.0F);
}

PITH_MULTIVERSION void flag_back_row(float * d_flag, const float * share, const float * grad, const float * p, int64_t n_flags,
                                     int64_t len) {
    Vec dot{};
    for_vectors(len, [&](int64_t i, int64_t m) PITH_LAMBDA_INLINE {
        Vec g, w;
        get(g, grad + i, m, 0.0F);
        get(w, p + i, m, 0.0F);
        dot += g * w;
    });
    const float mean = sum_of(dot);
    for (int64_t i = 0; i < n_flags; ++i) { d_flag[i] += share[i] * (grad[i] - mean); }
}

}  // namespace pith::train
