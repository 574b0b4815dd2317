// row_ops.cpp - the row-wise arithmetic of the training step. Stage: train.
#include "train/kernels/row_ops.h"

#include <algorithm>
#include <cmath>

#include "core/simd.h"

#pragma GCC diagnostic ignored "-Wpsabi"

namespace pith::train {
namespace {

constexpr float kLowest = -1e30F;

PITH_ALWAYS_INLINE float row_max(const float * row, int64_t n) {
    FloatVec best = FloatVec{} + kLowest;
    int64_t i = 0;
    FloatVec v;
    for (; i + kFloatLanes <= n; i += kFloatLanes) {
        load(v, row + i);
        best = best > v ? best : v;
    }
    if (i < n) {
        load_tail(v, row + i, n - i, kLowest);
        best = best > v ? best : v;
    }
    return max_of(best);
}

// out = exp(scale · (row - shift)), returns the sum; out may be null.
PITH_ALWAYS_INLINE float row_exp(const float * row, float * out, int64_t n, float shift, float scale) {
    FloatVec sum{};
    FloatVec v;
    int64_t i = 0;
    for (; i + kFloatLanes <= n; i += kFloatLanes) {
        load(v, row + i);
        v = (v - shift) * scale;
        exp_nonpositive(v);
        sum += v;
        if (out != nullptr) { store(out + i, v); }
    }
    if (i < n) {
        load_tail(v, row + i, n - i, kLowest);  // its exponential, 1e-38, counts for nothing
        v = (v - shift) * scale;
        exp_nonpositive(v);
        sum += v;
        if (out != nullptr) { store_tail(out + i, v, n - i); }
    }
    return sum_of(sum);
}

}  // namespace

PITH_CLONES void softmax_row(float * row, int64_t len, int64_t n, float scale) {
    const float inverse = 1.0F / row_exp(row, row, len, row_max(row, len), scale);
    for (int64_t i = 0; i < len; ++i) { row[i] *= inverse; }
    std::fill(row + len, row + n, 0.0F);
}

PITH_CLONES void softmax_back_row(float * grad, const float * p, int64_t len, int64_t n, float scale) {
    FloatVec dot{};
    FloatVec g, w;
    int64_t i = 0;
    for (; i + kFloatLanes <= len; i += kFloatLanes) {
        load(g, grad + i);
        load(w, p + i);
        dot += g * w;
    }
    if (i < len) {
        load_tail(g, grad + i, len - i, 0.0F);
        load_tail(w, p + i, len - i, 0.0F);
        dot += g * w;
    }
    const float mean = sum_of(dot);
    for (i = 0; i < len; ++i) { grad[i] = scale * p[i] * (grad[i] - mean); }
    std::fill(grad + len, grad + n, 0.0F);
}

PITH_CLONES float row_nll(const float * row, int64_t n, int32_t target, uint8_t & hit) {
    const float best = row_max(row, n);
    const float sum = row_exp(row, nullptr, n, best, 1.0F);
    hit = row[target] >= best ? 1 : 0;
    return best + std::log(sum) - row[target];
}

PITH_CLONES void row_nll_gradient(const float * row, float * out, int64_t n, int32_t target, float weight) {
    const float sum = row_exp(row, out, n, row_max(row, n), 1.0F);
    const float factor = weight / sum;
    for (int64_t i = 0; i < n; ++i) { out[i] *= factor; }
    out[target] -= weight;
}

PITH_CLONES void add_to(float * out, const float * in, int64_t n) {
    for (int64_t i = 0; i < n; ++i) { out[i] += in[i]; }
}

PITH_CLONES void silu_back(const float * grad, const float * x, float * out, int64_t n) {
    for (int64_t i = 0; i < n; i += kFloatLanes) {
        const int64_t left = n - i;
        FloatVec v, g;
        if (left >= kFloatLanes) {
            load(v, x + i);
            load(g, grad + i);
        } else {
            load_tail(v, x + i, left, 0.0F);
            load_tail(g, grad + i, left, 0.0F);
        }
        // exp of a non-positive number only: s(x) = e/(1+e) for x < 0, 1/(1+e) for x >= 0, e = exp(-|x|)
        const FloatVec zero{};
        FloatVec e = v < zero ? v : -v;
        exp_nonpositive(e);
        const FloatVec s = (v < zero ? e : zero + 1.0F) / (e + 1.0F);
        g = g * s * (1.0F + v * (1.0F - s));
        if (left >= kFloatLanes) {
            store(out + i, g);
        } else {
            store_tail(out + i, g, left);
        }
    }
}

}  // namespace pith::train
