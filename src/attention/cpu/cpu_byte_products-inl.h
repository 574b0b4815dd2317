// cpu_byte_products-inl.h - rows rounded to bytes, and their products with AVX-512 VNNI. Included once per instruction set.
// Stage: attention → evidence.
#if defined(PITH_CPU_BYTE_PRODUCTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PITH_CPU_BYTE_PRODUCTS_INL_H_
#undef PITH_CPU_BYTE_PRODUCTS_INL_H_
#else
#define PITH_CPU_BYTE_PRODUCTS_INL_H_
#endif

#include "attention/cpu/cpu_byte_units.h"
#include "attention/cpu/cpu_rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace pith::HWY_NAMESPACE {

// Returns the scale. Numbers that are not finite make it not finite.
HWY_INLINE float RoundRow(const float * HWY_RESTRICT x, size_t dim, int8_t * HWY_RESTRICT bytes) {
    const DF df;
    const hn::Rebind<int8_t, DF> d8;
    auto largest = hn::Zero(df);
    for (size_t c = 0; c < dim; c += kN) { largest = hn::Max(largest, hn::Abs(hn::LoadU(df, x + c))); }
    const float most = hn::ReduceMax(df, largest);
    if (most <= 1e-30F) {
        std::fill(bytes, bytes + dim, int8_t{0});
        return 0.0F;
    }
    const float to_bytes = 127.0F / most;
    const auto factor = hn::Set(df, to_bytes);
    auto squares = hn::Zero(df);
    auto products = hn::Zero(df);
    for (size_t c = 0; c < dim; c += kN) {
        const auto u = hn::Mul(hn::LoadU(df, x + c), factor);
        const auto whole = hn::NearestInt(u);
        squares = hn::MulAdd(u, u, squares);
        products = hn::MulAdd(u, hn::ConvertTo(df, whole), products);
        hn::StoreU(hn::DemoteTo(d8, whole), d8, bytes + c);
    }
    return hn::ReduceSum(df, squares) / hn::ReduceSum(df, products) / to_bytes;
}

void RoundToBytes(const float * rows, size_t stride, size_t n, size_t dim, int8_t * bytes, float * scales, int32_t * starts) {
    for (size_t r = 0; r < n; ++r) {
        int8_t * to = bytes + r * dim;
        scales[r] = RoundRow(rows + r * stride, dim, to);
        int32_t sum = 0;
        for (size_t c = 0; c < dim; ++c) { sum += to[c]; }
        starts[r] = -128 * sum;
    }
}

// Up to kByteEntries entries from `first` on, as quads of elements, 16 entries side by side: packed [4][padded / 4][16][4],
// zeros behind their last element and for those that are missing. raised: bytes stand 128 higher, as unsigned ones.
void PackByteEntries(const EntryRows & entries, size_t first, bool raised, uint8_t * packed, float * scales) {
    const auto dim = static_cast<size_t>(entries.dim);
    const size_t padded = padded_byte_dim(entries.dim);
    const uint32_t flip = raised ? 0x80808080U : 0;
    const size_t n = HWY_MIN(size_t{kByteEntries}, static_cast<size_t>(entries.n) - first);
    HWY_ALIGN float row[kMaxByteDim];
    HWY_ALIGN int8_t bytes[kMaxByteDim];
    std::fill(bytes + dim, bytes + padded, int8_t{0});
    WithLoader(entries.format, [&](auto load) HWY_ATTR {
        const auto * from = static_cast<const uint8_t *>(entries.rows) + first * entries.stride;
        for (size_t j = 0; j < kByteEntries; ++j) {
            if (j < n) {
                ForEachVector<decltype(load)>(from + j * entries.stride, dim,
                                              [&](size_t c, VF x) HWY_ATTR { hn::StoreU(x, DF(), row + c); });
                scales[j] = RoundRow(row, dim, bytes);
            } else {
                std::fill(bytes, bytes + dim, int8_t{0});
                scales[j] = 0.0F;
            }
            uint8_t * to = packed + j / 16 * 16 * padded + j % 16 * 4;
            for (size_t c = 0; c < padded; c += 4, to += 64) {
                uint32_t quad;
                hwy::CopyBytes<sizeof(quad)>(bytes + c, &quad);
                quad ^= flip;
                hwy::CopyBytes<sizeof(quad)>(&quad, to);
            }
        }
    });
}

#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3_DL
// sums [kByteEntries]: of one block, without its scales. packed: raised.
void SumByteMagnitudes(const uint8_t * packed, const ByteRows & rows, float * sums) {
    const DF df;
    constexpr size_t kRows = 8;
    static_assert(kByteRows % kRows == 0);
    const auto dim = static_cast<size_t>(rows.dim);
    const size_t padded = padded_byte_dim(rows.dim);
    for (size_t pair = 0; pair < kByteEntries / 32; ++pair) {
        const uint8_t * low = packed + pair * 32 * padded;
        const uint8_t * high = low + 16 * padded;
        VF totals[2] = {hn::Zero(df), hn::Zero(df)};
        for (size_t first = 0; first < static_cast<size_t>(rows.n_rows); first += kRows) {
            const int8_t * w = rows.bytes + first * dim;
            __m512i y[kRows][2];
            PITH_UNROLL
            for (size_t r = 0; r < kRows; ++r) { y[r][0] = y[r][1] = _mm512_set1_epi32(rows.starts[first + r]); }
            for (size_t c = 0; c < dim; c += 4) {
                const __m512i a = _mm512_loadu_si512(low + 16 * c);
                const __m512i b = _mm512_loadu_si512(high + 16 * c);
                PITH_UNROLL
                for (size_t r = 0; r < kRows; ++r) {
                    int32_t quad;
                    hwy::CopyBytes<sizeof(quad)>(w + r * dim + c, &quad);
                    const __m512i factor = _mm512_set1_epi32(quad);
                    y[r][0] = _mm512_dpbusd_epi32(y[r][0], a, factor);
                    y[r][1] = _mm512_dpbusd_epi32(y[r][1], b, factor);
                }
            }
            PITH_UNROLL
            for (size_t r = 0; r < kRows; ++r) {
                const auto scale = hn::Set(df, rows.scales[first + r]);
                for (size_t i = 0; i < 2; ++i) {
                    const VF magnitude{_mm512_cvtepi32_ps(_mm512_abs_epi32(y[r][i]))};
                    totals[i] = hn::MulAdd(magnitude, scale, totals[i]);
                }
            }
        }
        hn::StoreU(totals[0], df, sums + pair * 32);
        hn::StoreU(totals[1], df, sums + pair * 32 + 16);
    }
}
#else
void SumByteMagnitudes(const uint8_t *, const ByteRows &, float *) {}
#endif

// The best target that this one may stand for: see byte_units().
int ByteTarget() {
#if HWY_ARCH_X86
    return HWY_TARGET <= HWY_AVX3_DL ? 2 : HWY_TARGET <= HWY_AVX2 ? 1 : 0;
#else
    return 0;
#endif
}

}  // namespace pith::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
