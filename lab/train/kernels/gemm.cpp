// gemm.cpp - f32 matrix products of the training step on the CPU, compiled once per instruction set. Stage: train.
// `a` is packed into panels of 32 rows unless it already lies that way, `b` is read in place. The sums of a tile stay in
// registers: two vectors of rows for each of several columns.
#include "train/kernels/gemm.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "device/cpu_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "train/kernels/gemm.cpp"
#include "hwy/foreach_target.h"
// The order matters: foreach_target.h first.
#include "device/cpu_vectors-inl.h"
#include "hwy/highway.h"

#ifndef PITH_GEMM_PANEL
#define PITH_GEMM_PANEL
namespace pith::train {

// A panel of `a`, [k][32], and what is multiplied with it.
struct GemmPanel {
    const float * a;
    const float * b;  // element (j, p) at b[j·outer + p·inner]
    ptrdiff_t outer;
    ptrdiff_t inner;
    int64_t k;
    float * c;
    ptrdiff_t ldc;
    int64_t rows;  // of c to store, up to 32
    bool add;      // to c
};

}  // namespace pith::train
#endif

HWY_BEFORE_NAMESPACE();
namespace pith::train::HWY_NAMESPACE {

using namespace pith::HWY_NAMESPACE;  // vectors

inline constexpr int64_t kTileRows = 2 * int64_t{kN};
inline constexpr int64_t kTileColumns = kManyRegisters ? 8 : 6;
static_assert(kGemmTileM % kTileRows == 0);

// Rows [row, row + kTileRows) of kColumns columns from j on.
template <int64_t kColumns, bool kOuterIsOne>
HWY_INLINE void MultiplyTile(const GemmPanel & t, int64_t j, int64_t row) {
    const DF df;
    VF sums[kColumns][2];
    PITH_UNROLL
    for (int64_t e = 0; e < kColumns; ++e) { sums[e][0] = sums[e][1] = hn::Zero(df); }
    const float * a = t.a + row;
    const float * b[kColumns];
    PITH_UNROLL
    for (int64_t e = 0; e < kColumns; ++e) { b[e] = t.b + (j + e) * t.outer; }
    ptrdiff_t at = 0;
    for (int64_t p = 0; p < t.k; ++p, at += t.inner) {
        const VF first = hn::LoadU(df, a);
        const VF second = hn::LoadU(df, a + kN);
        a += kGemmTileM;
        PITH_UNROLL
        for (int64_t e = 0; e < kColumns; ++e) {
            const VF of_b = hn::Set(df, kOuterIsOne ? b[0][at + e] : b[e][at]);  // a constant folds into the address
            sums[e][0] = hn::MulAdd(first, of_b, sums[e][0]);
            sums[e][1] = hn::MulAdd(second, of_b, sums[e][1]);
        }
    }
    const int64_t n = HWY_MIN(kTileRows, t.rows - row);
    PITH_UNROLL
    for (int64_t e = 0; e < kColumns; ++e) {
        float * out = t.c + row + (j + e) * t.ldc;
        if (n == kTileRows) {
            if (t.add) {
                sums[e][0] = hn::Add(sums[e][0], hn::LoadU(df, out));
                sums[e][1] = hn::Add(sums[e][1], hn::LoadU(df, out + kN));
            }
            hn::StoreU(sums[e][0], df, out);
            hn::StoreU(sums[e][1], df, out + kN);
        } else {
            HWY_ALIGN float values[kTileRows];
            hn::Store(sums[e][0], df, values);
            hn::Store(sums[e][1], df, values + kN);
            for (int64_t i = 0; i < n; ++i) { out[i] = t.add ? out[i] + values[i] : values[i]; }
        }
    }
}

template <int64_t kColumns, bool kOuterIsOne>
HWY_INLINE int64_t MultiplyTiles(const GemmPanel & t, int64_t j, int64_t n) {  // returns the first column that is left
    for (; j + kColumns <= n; j += kColumns) {
        for (int64_t row = 0; row < t.rows; row += kTileRows) { MultiplyTile<kColumns, kOuterIsOne>(t, j, row); }
    }
    return j;
}

template <bool kOuterIsOne>
HWY_INLINE void MultiplyColumns(const GemmPanel & t, int64_t n) {
    int64_t j = MultiplyTiles<kTileColumns, kOuterIsOne>(t, 0, n);
    j = MultiplyTiles<4, kOuterIsOne>(t, j, n);
    j = MultiplyTiles<2, kOuterIsOne>(t, j, n);
    MultiplyTiles<1, kOuterIsOne>(t, j, n);
}

// The panel with n columns.
void MultiplyPanel(const GemmPanel & t, int64_t n) {
    t.outer == 1 ? MultiplyColumns<true>(t, n) : MultiplyColumns<false>(t, n);
}

}  // namespace pith::train::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pith::train {

HWY_EXPORT(MultiplyPanel);

namespace {

constexpr int64_t kBlockK = 256;  // a packed panel of 32 x 256 floats stays in L1

// rows i0 .. i0+31 and p0 .. p0+k-1 of `a` as [k][32], zero beyond m.
void pack(const MatrixView & a, int64_t i0, int64_t rows, int64_t p0, int64_t k, float * out) {
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
    for (int64_t i0 = range.i_begin; i0 < range.i_end; i0 += kGemmTileM) {
        const int64_t rows = std::min(kGemmTileM, range.i_end - i0);
        // Rows far apart fall into few sets of the cache: only a dense panel is read in place.
        const bool direct = a.outer == 1 && a.inner == kGemmTileM && rows == kGemmTileM;
        for (int64_t p0 = 0; p0 < shape.k; p0 += kBlockK) {
            const int64_t k = std::min(kBlockK, shape.k - p0);
            if (!direct) { pack(a, i0, rows, p0, k, panel.data()); }
            HWY_DYNAMIC_DISPATCH(MultiplyPanel)
            ({.a = direct ? a.data + i0 + p0 * a.inner : panel.data(),
              .b = b.data + range.j_begin * b.outer + p0 * b.inner,
              .outer = b.outer,
              .inner = b.inner,
              .k = k,
              .c = c + i0 + range.j_begin * ldc,
              .ldc = ldc,
              .rows = rows,
              .add = p0 > 0},
             range.j_end - range.j_begin);
        }
    }
}

}  // namespace pith::train
#endif
