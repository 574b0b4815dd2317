// gemm.cpp - f32 matrix products of the training step on the CPU. Stage: train.
// Register tile of 32 x 8; `a` is packed into panels of 32 rows unless it already lies that way, `b` is read in place.
#include "train/kernels/gemm.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "core/simd.h"

#pragma GCC diagnostic ignored "-Wpsabi"

namespace pith::train {
namespace {

constexpr int64_t kBlockK = 256;  // a packed panel of 32 x 256 floats stays in L1

// One tile: rows of `a` at a[p·lda + 0..31]; writes or adds into c.
struct Tile {
    const float * a;
    ptrdiff_t lda;
    const float * b;  // element (j, p) at b[j·outer + p·inner]
    ptrdiff_t outer;
    ptrdiff_t inner;
    int64_t k;
    float * c;
    ptrdiff_t ldc;
    int64_t rows;  // of c to store, up to 32
    int64_t cols;  // up to 8
    bool add;
};

template <int kCols, bool kInnerIsOne>
PITH_ALWAYS_INLINE void multiply(const Tile & t) {
    FloatVec acc[kCols][2] = {};
    const float * bp[kCols];
    for (int j = 0; j < kCols; ++j) { bp[j] = t.b + j * t.outer; }
    const float * a = t.a;
    for (int64_t p = 0; p < t.k; ++p) {
        FloatVec a0, a1;
        load(a0, a);
        load(a1, a + kFloatLanes);
        a += t.lda;
#pragma GCC unroll 8
        for (int j = 0; j < kCols; ++j) {
            const float v = kInnerIsOne ? bp[j][p] : bp[0][p * t.inner + j * t.outer];
            acc[j][0] += a0 * v;
            acc[j][1] += a1 * v;
        }
    }
    for (int j = 0; j < kCols; ++j) {
        float * out = t.c + j * t.ldc;
        if (t.rows == kGemmTileM) {
            if (t.add) {
                FloatVec old0, old1;
                load(old0, out);
                load(old1, out + kFloatLanes);
                acc[j][0] += old0;
                acc[j][1] += old1;
            }
            store(out, acc[j][0]);
            store(out + kFloatLanes, acc[j][1]);
        } else {
            float values[kGemmTileM];
            store(values, acc[j][0]);
            store(values + kFloatLanes, acc[j][1]);
            for (int64_t i = 0; i < t.rows; ++i) { out[i] = t.add ? out[i] + values[i] : values[i]; }
        }
    }
}

// Columns contiguous: the outer stride is a constant, so that addresses fold into the instructions.
template <int kCols>
PITH_ALWAYS_INLINE void multiply_outer_one(Tile t) {
    t.outer = 1;
    multiply<kCols, false>(t);
}

PITH_CLONES void run_tiles(const Tile & first, int64_t n) {
    for (int64_t j = 0; j < n; j += kGemmTileN) {
        Tile t = first;
        t.b += j * t.outer;
        t.c += j * t.ldc;
        t.cols = n - j;
        if (t.cols >= kGemmTileN) {
            if (t.inner == 1) {
                multiply<8, true>(t);
            } else if (t.outer == 1) {
                multiply_outer_one<8>(t);
            } else {
                multiply<8, false>(t);
            }
        } else {
            for (int64_t jj = 0; jj < t.cols; ++jj) {
                Tile one = t;
                one.b += jj * t.outer;
                one.c += jj * t.ldc;
                multiply<1, false>(one);
            }
        }
    }
}

// rows i0 .. i0+31 and p0 .. p0+k-1 of `a` as [k][32], zero beyond m.
PITH_CLONES void pack(const MatrixView & a, int64_t i0, int64_t rows, int64_t p0, int64_t k, float * out) {
    if (rows < kGemmTileM) { std::fill(out, out + k * kGemmTileM, 0.0F); }
    if (a.outer == 1 && rows == kGemmTileM) {
        for (int64_t p = 0; p < k; ++p) {
            std::memcpy(out + p * kGemmTileM, a.data + i0 + (p0 + p) * a.inner, kGemmTileM * sizeof(float));
        }
        return;
    }
    for (int64_t i = 0; i < rows; ++i) {
        const float * row = a.data + (i0 + i) * a.outer + p0 * a.inner;
        for (int64_t p = 0; p < k; ++p) { out[p * kGemmTileM + i] = row[p * a.inner]; }
    }
}

}  // namespace

void gemm_range(const GemmShape & shape, const MatrixView & a, const MatrixView & b, float * c, ptrdiff_t ldc,
                const GemmRange & range) {
    thread_local std::vector<float> panel;
    panel.resize(static_cast<size_t>(kBlockK * kGemmTileM));
    const int64_t n = range.j_end - range.j_begin;
    for (int64_t i0 = range.i_begin; i0 < range.i_end; i0 += kGemmTileM) {
        const int64_t rows = std::min(kGemmTileM, range.i_end - i0);
        // Rows far apart fall into few sets of the cache: only a dense panel is read in place.
        const bool direct = a.outer == 1 && a.inner == kGemmTileM && rows == kGemmTileM;
        for (int64_t p0 = 0; p0 < shape.k; p0 += kBlockK) {
            const int64_t k = std::min(kBlockK, shape.k - p0);
            if (!direct) { pack(a, i0, rows, p0, k, panel.data()); }
            run_tiles({.a = direct ? a.data + i0 + p0 * a.inner : panel.data(),
                       .lda = kGemmTileM,
                       .b = b.data + range.j_begin * b.outer + p0 * b.inner,
                       .outer = b.outer,
                       .inner = b.inner,
                       .k = k,
                       .c = c + i0 + range.j_begin * ldc,
                       .ldc = ldc,
                       .rows = rows,
                       .cols = 0,
                       .add = p0 > 0},
                      n);
        }
    }
}

}  // namespace pith::train
