// half.cpp - by x86's own conversion (F16C), or by whole numbers, many at once: ggml-base, built for every x86-64, converts one
// by one.
#include "core/half.h"

#include <algorithm>
#include <cstring>

#include "core/simd.h"

namespace pith {
namespace {

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"

typedef uint16_t HalfVec __attribute__((vector_size(32)));

constexpr int32_t kMagnitude = 0x7fffffff;
constexpr int32_t kSmallestNormal = 113 << 23;  // of halves: 2^-14
constexpr int32_t kTooLarge = 0x477ff000;       // 65,520, which would round to 65,536
constexpr int32_t kInfinite = 0x7f800000;
constexpr int32_t kHalf = 0x3f000000;  // 0.5

PITH_CLONES void round_blocks(const float * values, uint16_t * out, size_t n) {
    for (size_t i = 0; i < n; i += kFloatLanes) {
        IntVec bits;
        load(bits, values + i);
        const IntVec magnitude = bits & kMagnitude;
        // The exponent counts from another place, and 13 bits go; what carries goes on into the exponent.
        const IntVec normal = (magnitude - (112 << 23) + 0x0fff + ((magnitude >> 13) & 1)) >> 13;
        // Between 0.5 and 1 floats lie as far apart as the smallest halves: the addition rounds.
        FloatVec small;
        same_bits(small, magnitude);
        small += 0.5F;
        IntVec tiny;
        same_bits(tiny, small);
        tiny -= kHalf;
        IntVec half = magnitude < kSmallestNormal ? tiny : normal;
        half = magnitude < kTooLarge ? half : IntVec{} + 0x7c00;
        half = magnitude > kInfinite ? IntVec{} + 0x7e00 : half;
        half |= (bits >> 16) & 0x8000;
        const HalfVec halves = __builtin_convertvector(half, HalfVec);
        std::memcpy(out + i, &halves, sizeof halves);
    }
}

#if defined(__x86_64__) && defined(__GNUC__)
#define PITH_HAVE_F16C
// What is no number keeps its bits there and has one form here.
__attribute__((target("avx,f16c"))) void convert_blocks(const float * values, uint16_t * out, size_t n) {
    for (size_t i = 0; i < n; i += kFloatLanes) {
        EightFloats low;
        EightFloats high;
        load(low, values + i);
        load(high, values + i + kEightLanes);
        EightFloats no_numbers;
        same_bits(no_numbers, (low != low) | (high != high));
        if (__builtin_ia32_movmskps256(no_numbers) != 0) {
            round_blocks(values + i, out + i, kFloatLanes);
            continue;
        }
        const auto halves = __builtin_ia32_vcvtps2ph256(low, 0);  // 0: to nearest, to even
        const auto others = __builtin_ia32_vcvtps2ph256(high, 0);
        std::memcpy(out + i, &halves, sizeof halves);
        std::memcpy(out + i + kEightLanes, &others, sizeof others);
    }
}
#endif

auto fastest() {
#ifdef PITH_HAVE_F16C
#ifdef __clang__  // its older versions have no word for F16C, which all processors with these two have
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) { return convert_blocks; }
#else
    if (__builtin_cpu_supports("avx") && __builtin_cpu_supports("f16c")) { return convert_blocks; }
#endif
#endif
    return round_blocks;
}

#pragma GCC diagnostic pop

}  // namespace

void round_to_half(std::span<const float> values, uint16_t * out) {
    static const auto round_all = fastest();
    const size_t whole = values.size() / kFloatLanes * kFloatLanes;
    round_all(values.data(), out, whole);
    if (whole == values.size()) { return; }
    float rest[kFloatLanes] = {};
    uint16_t halves[kFloatLanes];
    std::ranges::copy(values.subspan(whole), rest);
    round_all(rest, halves, kFloatLanes);
    std::copy_n(halves, values.size() - whole, out + whole);
}

}  // namespace pith
