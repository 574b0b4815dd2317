// cpu_whole-inl.h - floats on their way to whole numbers. Included once per instruction set. Stage: attention.
#if defined(PITH_CPU_WHOLE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PITH_CPU_WHOLE_INL_H_
#undef PITH_CPU_WHOLE_INL_H_
#else
#define PITH_CPU_WHOLE_INL_H_
#endif

#include "attention/cpu/cpu_simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace pith::HWY_NAMESPACE {

using VI = hn::Vec<DI>;

// The nearest whole number, of numbers that fit.
HWY_INLINE VI Nearest(VF numbers) {
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
    return VI{_mm512_cvtps_epi32(numbers.raw)};
#elif HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
    return VI{_mm256_cvtps_epi32(numbers.raw)};
#else
    return hn::NearestInt(numbers);
#endif
}

// The largest size of numbers so far: as whole numbers, bits of what is not a number are larger than those of all that are.
HWY_INLINE VI LargerSize(VI largest, VF numbers) {
    return hn::Max(largest, hn::BitCast(DI(), hn::Abs(numbers)));
}
HWY_INLINE float LargestOf(VI largest) {
    return hwy::BitCastScalar<float>(hn::ReduceMax(DI(), largest));
}
// What numbers are multiplied by, so that the largest becomes `most`. 0 for numbers that no sum would show.
HWY_INLINE VF FactorTo(float most, float largest) {
    return hn::Set(DF(), largest > 1e-30F ? most / largest : 0.0F);
}

}  // namespace pith::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
