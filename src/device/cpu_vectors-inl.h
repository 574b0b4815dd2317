// cpu_vectors-inl.h - vectors of up to 16 floats, as the CPU's kernels have them. Included once per instruction set. Stage:
// device.
#if defined(PITH_CPU_VECTORS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PITH_CPU_VECTORS_INL_H_
#undef PITH_CPU_VECTORS_INL_H_
#else
#define PITH_CPU_VECTORS_INL_H_
#endif

#include "hwy/highway.h"

// In front of a loop over vectors in registers: left to itself, GCC unrolls it only once the vectors have got an array in
// memory.
#undef PITH_UNROLL
#if defined(__clang__)
#define PITH_UNROLL _Pragma("unroll")
#elif defined(__GNUC__)
#define PITH_UNROLL _Pragma("GCC unroll 16")
#else
#define PITH_UNROLL
#endif

HWY_BEFORE_NAMESPACE();
namespace pith::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using DF = hn::CappedTag<float, 16>;
using DI = hn::RebindToSigned<DF>;
using VF = hn::Vec<DF>;
inline constexpr size_t kN = HWY_MAX_LANES_D(DF);
inline constexpr bool kManyRegisters = HWY_TARGET <= HWY_AVX3 || HWY_ARCH_ARM_A64;  // 32 of them instead of 16

HWY_INLINE hn::Vec<hn::FixedTag<float, 4>> FoldBlocks(hn::Vec<hn::FixedTag<float, 4>> v) {
    return v;
}
template <class V, HWY_IF_V_SIZE_GT_V(V, 16)>
HWY_INLINE hn::Vec<hn::FixedTag<float, 4>> FoldBlocks(V v) {
    const hn::DFromV<V> d;
    const hn::Half<decltype(d)> half;
    return FoldBlocks(hn::Add(hn::LowerHalf(half, v), hn::UpperHalf(half, v)));
}

// The sums of four vectors, as one; each in the same order, whichever of the four it is.
HWY_INLINE hn::Vec<hn::FixedTag<float, 4>> SumsOf4(VF a, VF b, VF c, VF d) {
    const DF df;
    const hn::RepartitionToWide<DF> d64;
    const auto ab = hn::Add(hn::InterleaveLower(df, a, b), hn::InterleaveUpper(df, a, b));  // a02 b02 a13 b13 per block
    const auto cd = hn::Add(hn::InterleaveLower(df, c, d), hn::InterleaveUpper(df, c, d));
    const auto low = hn::InterleaveLower(d64, hn::BitCast(d64, ab), hn::BitCast(d64, cd));
    const auto high = hn::InterleaveUpper(d64, hn::BitCast(d64, ab), hn::BitCast(d64, cd));
    return FoldBlocks(hn::Add(hn::BitCast(df, low), hn::BitCast(df, high)));
}

}  // namespace pith::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
