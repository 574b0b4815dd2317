// f32_product.cpp - the kernel, compiled once per instruction set, and what each thread computes of it.
#include "matmul/f32_product.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "device/cpu_targets.h"
#include "matmul/share.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "matmul/f32_product.cpp"
#include "hwy/foreach_target.h"
// The order matters: foreach_target.h first.
#include "device/cpu_vectors-inl.h"
#include "hwy/cache_control.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace pith::HWY_NAMESPACE {

// Inner elements whose products are added up in a vector; beyond, such sums are added one by one.
inline constexpr size_t kProductChunk = 512;
// Rows of x in a tile, whose sums with 4 rows of weights stay in registers.
inline constexpr size_t kProductRows = kManyRegisters ? 6 : 3;
// Rows of x that meet all weights before the next ones do: a chunk of them stays in a near cache. Of whole tiles.
inline constexpr size_t kProductBlock = 48;

// sums[r][e] += x[r] · w[e], elements loaded by `load`.
template <size_t kRows, size_t kWeights, class Load>
HWY_INLINE void AddStep(const float * const (&w)[kWeights], const float * const (&x)[kRows], Load load,
                        VF (&sums)[kRows][kWeights]) {
    VF of_x[kRows];
    PITH_UNROLL
    for (size_t r = 0; r < kRows; ++r) { of_x[r] = load(x[r]); }
    PITH_UNROLL
    for (size_t e = 0; e < kWeights; ++e) {
        const auto of_w = load(w[e]);
        PITH_UNROLL
        for (size_t r = 0; r < kRows; ++r) { sums[r][e] = hn::MulAdd(of_x[r], of_w, sums[r][e]); }
    }
}

// The same for n elements. With kFetch the weights `ahead` floats behind these are asked for: from the shared cache they come
// too late otherwise.
template <size_t kRows, size_t kWeights, bool kFetch>
HWY_INLINE void AddElements(const float * const (&w)[kWeights], const float * const (&x)[kRows], size_t n, size_t ahead,
                            VF (&sums)[kRows][kWeights]) {
    const DF df;
    size_t k = 0;
    for (; k + kN <= n; k += kN) {
        if constexpr (kFetch) {
            PITH_UNROLL
            for (size_t e = 0; e < kWeights; ++e) { hwy::Prefetch(w[e] + k + ahead); }
        }
        AddStep<kRows, kWeights>(
            w, x, [&](const float * from) HWY_ATTR { return hn::LoadU(df, from + k); }, sums);
    }
    if (k < n) {
        AddStep<kRows, kWeights>(
            w, x, [&](const float * from) HWY_ATTR { return hn::LoadN(df, from + k, n - k); }, sums);
    }
}

// Up to four neighbouring outputs, written or, from the second chunk on, added to.
HWY_INLINE void PutOutputs(hn::Vec<hn::FixedTag<float, 4>> sums, size_t n, bool adds, float * out) {
    const hn::FixedTag<float, 4> d4;
    if (n >= 4) {
        hn::StoreU(adds ? hn::Add(hn::LoadU(d4, out), sums) : sums, d4, out);
        return;
    }
    alignas(16) float values[4];
    hn::Store(sums, d4, values);
    for (size_t i = 0; i < n; ++i) { out[i] = adds ? out[i] + values[i] : values[i]; }
}

// Elements [c, c + n) of kRows rows of x from j on, with up to kWeights rows of weights from i on.
template <size_t kRows, size_t kWeights, bool kFetch>
HWY_INLINE void MultiplyTile(const F32Product & p, size_t i, size_t i_end, size_t j, size_t c, size_t n, size_t ahead) {
    const DF df;
    const float * w[kWeights];  // behind the last: the last again
    PITH_UNROLL
    for (size_t e = 0; e < kWeights; ++e) { w[e] = p.weights + HWY_MIN(i + e, i_end - 1) * p.weight_stride + c; }
    const float * x[kRows];
    PITH_UNROLL
    for (size_t r = 0; r < kRows; ++r) { x[r] = p.x + (j + r) * p.x_stride + c; }
    VF sums[kRows][kWeights];
    PITH_UNROLL
    for (size_t r = 0; r < kRows; ++r) {
        PITH_UNROLL
        for (size_t e = 0; e < kWeights; ++e) { sums[r][e] = hn::Zero(df); }
    }
    AddElements<kRows, kWeights, kFetch>(w, x, n, ahead, sums);
    PITH_UNROLL
    for (size_t r = 0; r < kRows; ++r) {
        float * out = p.out + (j + r) * p.out_stride + i;
        PITH_UNROLL
        for (size_t e = 0; e < kWeights; e += 4) {
            if (i + e >= i_end) { break; }
            PutOutputs(SumsOf4(sums[r][e], sums[r][e + 1], sums[r][e + 2], sums[r][e + 3]), i_end - i - e, c > 0, out + e);
        }
    }
}

// One row of x with rows of weights of one chunk: 8 of these, so that no multiply-add waits for the one before it.
HWY_INLINE void MultiplyShortRow(const F32Product & p, size_t j) {
    for (size_t i = 0; i < p.n_out; i += 8) { MultiplyTile<1, 8, true>(p, i, p.n_out, j, 0, p.n_in, 8 * p.weight_stride); }
}

// Up to kProductRows rows of x with rows of weights of several chunks, four by four as they lie in memory. Nothing is asked for
// ahead: far memory's own prefetchers are the faster.
HWY_INLINE void MultiplyLongRows(const F32Product & p, size_t j, size_t n) {
    WithCount<kProductRows>(n, [&](auto rows) HWY_ATTR {
        for (size_t i = 0; i < p.n_out; i += 4) {
            for (size_t c = 0; c < p.n_in; c += kProductChunk) {
                MultiplyTile<decltype(rows)::value, 4, false>(p, i, p.n_out, j, c, HWY_MIN(kProductChunk, p.n_in - c), 0);
            }
        }
    });
}

// n rows of x from j on, n_rows at a time: a chunk of all weights for all of them, then the next chunk.
HWY_INLINE void MultiplyRows(const F32Product & p, size_t j, size_t n, size_t n_rows) {
    for (size_t c = 0; c < p.n_in; c += kProductChunk) {
        const size_t n_inner = HWY_MIN(kProductChunk, p.n_in - c);
        for (size_t i = 0; i < p.n_out; i += 4) {
            WithCount<kProductRows>(n_rows, [&](auto rows) HWY_ATTR {
                MultiplyTile<decltype(rows)::value, 4, true>(p, i, p.n_out, j, c, n_inner, 4 * p.weight_stride);
            });
            for (size_t r = n_rows; r < n; r += n_rows) {
                WithCount<kProductRows>(HWY_MIN(n_rows, n - r), [&](auto rows) HWY_ATTR {
                    MultiplyTile<decltype(rows)::value, 4, false>(p, i, p.n_out, j + r, c, n_inner, 0);
                });
            }
        }
    }
}

void Multiply(const F32Product & p) {
    const bool is_long = p.n_in > kProductChunk;
    for (size_t j = 0; j < p.n; j += kProductBlock) {
        const size_t n = HWY_MIN(kProductBlock, p.n - j);
        const size_t n_tiles = (n + kProductRows - 1) / kProductRows;
        if (is_long && n_tiles == 1) {
            MultiplyLongRows(p, j, n);
        } else if (n == 1) {
            MultiplyShortRow(p, j);
        } else {
            MultiplyRows(p, j, n, (n + n_tiles - 1) / n_tiles);
        }
    }
}

int64_t ProductTarget() {
    return HWY_TARGET;
}

}  // namespace pith::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pith {

HWY_EXPORT(Multiply);
HWY_EXPORT(ProductTarget);

namespace {

constexpr size_t kWeightsDealt = 8;  // rows of weights that one thread gets at least: a tile's, for any instruction set
constexpr size_t kRowsDealt = 12;    // of x

}  // namespace

void multiply_part(const F32Product & product, int ith, int n_threads) {
    F32Product mine = product;
    if (product.n > product.n_out) {
        const auto [first, end] = share_of(product.n, kRowsDealt, ith, n_threads);
        mine.x += first * mine.x_stride;
        mine.out += first * mine.out_stride;
        mine.n = end - first;
    } else {
        const auto [first, end] = share_of(product.n_out, kWeightsDealt, ith, n_threads);
        mine.weights += first * mine.weight_stride;
        mine.out += first;
        mine.n_out = end - first;
    }
    if (mine.n > 0 && mine.n_out > 0) { HWY_DYNAMIC_DISPATCH(Multiply)(mine); }
}

bool f32_product_pays() {
    // Better sets have smaller numbers; all that are compiled on other processors than x86 have fused multiply-adds.
    return HWY_ARCH_X86 == 0 || HWY_DYNAMIC_DISPATCH(ProductTarget)() <= HWY_AVX2;
}

}  // namespace pith
#endif
