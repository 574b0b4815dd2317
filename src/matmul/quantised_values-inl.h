// quantised_values-inl.h - weights of four bits that stand for the values of a table (IQ4_NL, IQ4_XS, MXFP4), and products of
// bytes whose weights have a sign. Included once per instruction set. Stage: matmul. Source: ggml's tables of these types; OCP
// Microscaling Formats (MX) v1.0, FP4 E2M1 and E8M0.
#if defined(PITH_QUANTISED_VALUES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PITH_QUANTISED_VALUES_INL_H_
#undef PITH_QUANTISED_VALUES_INL_H_
#else
#define PITH_QUANTISED_VALUES_INL_H_
#endif

#include <array>

#include "device/cpu_vectors-inl.h"
#include "matmul/quantised_product.h"

HWY_BEFORE_NAMESPACE();
namespace pith::PITH_KERNELS {

using VI = hn::Vec<DI>;
using DU8 = hn::Repartition<uint8_t, DI>;
using DI16 = hn::Repartition<int16_t, DI>;

// Byte products that add up four neighbours in one instruction: sum + those of w without a sign and x with one.
#if defined(PITH_AVX_VNNI)
inline constexpr bool kHasByteDots = true;
template <class D, class VU8, class VI8>
HWY_INLINE hn::Vec<D> AddByteDots(D, VU8 w, VI8 x, hn::Vec<D> sum) {
    return hn::Vec<D>{_mm256_dpbusd_avx_epi32(sum.raw, w.raw, x.raw)};
}
#else
inline constexpr bool kHasByteDots = HWY_TARGET <= HWY_AVX3_DL;
template <class D, class VU8, class VI8>
HWY_INLINE hn::Vec<D> AddByteDots(D d, VU8 w, VI8 x, hn::Vec<D> sum) {
    return hn::SumOfMulQuadAccumulate(d, w, x, sum);
}
#endif

// In steps that widen outwards.
inline constexpr std::array<int, 16> kSteps16 = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
// Floats of four bits times two: a sign, two bits of exponent, one of fraction.
inline constexpr std::array<int, 16> kFloats16 = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

template <QuantType kType>
inline constexpr const std::array<int, 16> & kValuesOf = kType == QuantType::kMXFP4 ? kFloats16 : kSteps16;

// The values as bytes, `offset` added.
template <QuantType kType, int kOffset>
inline constexpr std::array<uint8_t, 16> kValueBytes = [] {
    std::array<uint8_t, 16> bytes = {};
    for (size_t i = 0; i < bytes.size(); ++i) { bytes[i] = static_cast<uint8_t>(kValuesOf<kType>[i] + kOffset); }
    return bytes;
}();

// What numbers below 16 stand for.
template <QuantType kType, int kOffset, class V>
HWY_INLINE V LookUpValues(V numbers) {
    const hn::DFromV<V> d;
    return hn::TableLookupBytes(hn::LoadDup128(d, kValueBytes<kType, kOffset>.data()), numbers);
}

// Products of bytes, neighbours added up in 16 bits: of weights without a sign, whose sums must fit, or with one: then they do,
// since 2 · 128 · 127 does (x is never -128).
template <bool kSigned, class D16, class VU8, class VI8>
HWY_INLINE hn::Vec<D16> ByteProducts(D16 d16, VU8 w, VI8 x) {
    if constexpr (kSigned) {
        const hn::DFromV<VU8> du8;
        const hn::DFromV<VI8> di8;
        const VI8 with_sign = hn::BitCast(di8, w);
        return hn::SatWidenMulPairwiseAdd(d16, hn::BitCast(du8, hn::Abs(with_sign)),
                                          hn::IfNegativeThenNegOrUndefIfZero(with_sign, x));  // undefined times 0
    } else {
        return hn::SatWidenMulPairwiseAdd(d16, w, x);
    }
}

}  // namespace pith::PITH_KERNELS
HWY_AFTER_NAMESPACE();
#endif
