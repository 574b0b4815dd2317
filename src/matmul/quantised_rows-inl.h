// quantised_rows-inl.h - rounds rows to 8 bits. Included once per instruction set. Stage: matmul.
#if defined(PITH_QUANTISED_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PITH_QUANTISED_ROWS_INL_H_
#undef PITH_QUANTISED_ROWS_INL_H_
#else
#define PITH_QUANTISED_ROWS_INL_H_
#endif

#include "device/cpu_vectors-inl.h"
#include "matmul/quantised_rows.h"

HWY_BEFORE_NAMESPACE();
namespace pith::PITH_KERNELS {

inline constexpr size_t kGroup = 32;
inline constexpr size_t kBlockGroups = kQuantBlock / kGroup;

// n elements; returns their scale, which is not a number where an element is infinite or none: then the row's products are not.
template <size_t n>
HWY_INLINE float Quantise(const float * x, int8_t * quants) {
    const DF df;
    const hn::Rebind<int8_t, DF> d8;
    VF most = hn::Zero(df);
    VF wrong = hn::Zero(df);  // stays 0 unless there is such an element
    for (size_t i = 0; i < n; i += kN) {
        const VF v = hn::LoadU(df, x + i);
        most = hn::Max(most, hn::Abs(v));
        wrong = hn::Add(wrong, hn::Sub(v, v));
    }
    const float largest = hn::ReduceMax(df, most);
    // Of numbers below 1e-36 the factor would be infinite, and 0 times it none.
    const VF by = hn::Set(df, largest > 0 ? HWY_MIN(127.0F / largest, 3e38F) : 0.0F);
    for (size_t i = 0; i < n; i += kN) {
        hn::StoreU(hn::DemoteTo(d8, hn::NearestInt(hn::Mul(hn::LoadU(df, x + i), by))), d8, quants + i);
    }
    return largest / 127.0F + hn::ReduceSum(df, wrong);
}

template <size_t n>
HWY_INLINE int32_t SumOf(const int8_t * quants) {
    int32_t sum = 0;
    for (size_t i = 0; i < n; ++i) { sum += quants[i]; }
    return sum;
}

HWY_INLINE void QuantiseBlock(const float * x, QuantisedBlock & to) {
    to.scale = Quantise<kQuantBlock>(x, to.quants);
    for (size_t g = 0; g < 16; ++g) { to.offsets[g] = -32 * SumOf<16>(to.quants + 16 * g); }
    for (size_t g = 0; g < 8; ++g) {
        const int32_t sum = SumOf<kGroup>(to.quants + kGroup * g);
        to.sums[g] = static_cast<int16_t>(sum);
        to.wide_offsets[g] = -128 * sum;
    }
}

HWY_INLINE void QuantiseGroup(const float * x, size_t g, QuantisedGroups & to) {
    int8_t quants[kGroup];
    to.scales[g] = Quantise<kGroup>(x, quants);
    to.sums[g] = SumOf<kGroup>(quants);
    hwy::CopyBytes<16>(quants, to.quants + place_in_groups(g, 0));
    hwy::CopyBytes<16>(quants + 16, to.quants + place_in_groups(g, 16));
    to.scaled_sums[g] = to.scales[g] * static_cast<float>(to.sums[g]);
}

void QuantiseRows(const RowsToQuantise & rows, size_t first, size_t end) {
    const size_t stride = rows.block_stride;
    for (size_t r = first; r < end; ++r) {
        if (rows.groups != nullptr) {
            for (size_t g = 0; g < rows.n_in / kGroup; ++g) {
                QuantiseGroup(rows.x + r * rows.stride + g * kGroup, g % kBlockGroups,
                              rows.groups[g / kBlockGroups * stride + r]);
            }
            continue;
        }
        for (size_t b = 0; b < rows.n_in / kQuantBlock; ++b) {
            QuantiseBlock(rows.x + r * rows.stride + b * kQuantBlock, rows.blocks[b * stride + r]);
        }
    }
}

}  // namespace pith::PITH_KERNELS
HWY_AFTER_NAMESPACE();
#endif
