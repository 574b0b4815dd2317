// cpu_vectors-inl.h - vectors of up to 16 floats, as the CPU's kernels have them. Included once per instruction set. Stage:
// device.
#if defined(PITH_CPU_VECTORS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PITH_CPU_VECTORS_INL_H_
#undef PITH_CPU_VECTORS_INL_H_
#else
#define PITH_CPU_VECTORS_INL_H_
#endif

#include <type_traits>

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

// The namespace of an instruction set's kernels: Highway's, and one of our own where a file compiles them with what Highway
// knows no set for.
#undef PITH_KERNELS
#if defined(PITH_AVX_VNNI)
#define PITH_KERNELS N_AVX2_VNNI
#else
#define PITH_KERNELS HWY_NAMESPACE
#endif

HWY_BEFORE_NAMESPACE();
namespace pith::PITH_KERNELS {
namespace hn = hwy::HWY_NAMESPACE;

using DF = hn::CappedTag<float, 16>;
using DI = hn::RebindToSigned<DF>;
using VF = hn::Vec<DF>;
inline constexpr size_t kN = HWY_MAX_LANES_D(DF);
inline constexpr bool kManyRegisters = HWY_TARGET <= HWY_AVX3 || HWY_ARCH_ARM_A64;  // 32 of them instead of 16

// The sum of a vector's blocks of four.
template <class V, HWY_IF_V_SIZE_V(V, 16)>
HWY_INLINE V FoldBlocks(V v) {
    return v;
}
template <class V, HWY_IF_V_SIZE_GT_V(V, 16)>
HWY_INLINE auto FoldBlocks(V v) {
    const hn::DFromV<V> d;
    const hn::Half<decltype(d)> half;
    return FoldBlocks(hn::Add(hn::LowerHalf(half, v), hn::UpperHalf(half, v)));
}

// In each block of four the sums over that block of four vectors of 32-bit lanes; each in the same order, whichever of the four
// it is.
template <class V>
HWY_INLINE V BlockSumsOf4(V a, V b, V c, V e) {
    const hn::DFromV<V> d;
    const hn::RepartitionToWide<decltype(d)> d64;
    const auto ab = hn::Add(hn::InterleaveLower(d, a, b), hn::InterleaveUpper(d, a, b));  // a02 b02 a13 b13
    const auto ce = hn::Add(hn::InterleaveLower(d, c, e), hn::InterleaveUpper(d, c, e));
    const auto low = hn::InterleaveLower(d64, hn::BitCast(d64, ab), hn::BitCast(d64, ce));
    const auto high = hn::InterleaveUpper(d64, hn::BitCast(d64, ab), hn::BitCast(d64, ce));
    return hn::Add(hn::BitCast(d, low), hn::BitCast(d, high));
}
// The sums of four vectors, as one of four lanes.
template <class V>
HWY_INLINE auto SumsOf4(V a, V b, V c, V e) {
    return FoldBlocks(BlockSumsOf4(a, b, c, e));
}

// Calls visit with n, at most kMost, as a constant.
template <size_t kMost, class Visit>
HWY_INLINE void WithCount(size_t n, Visit visit) {
    if (n == kMost) { return visit(std::integral_constant<size_t, kMost>()); }
    if constexpr (kMost > 1) { WithCount<kMost - 1>(n, visit); }
}

}  // namespace pith::PITH_KERNELS
HWY_AFTER_NAMESPACE();
#endif
