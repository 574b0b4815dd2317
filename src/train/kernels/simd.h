// simd.h - 16 floats at once by GCC's and Clang's vector extensions; the compiler picks the instructions. Stage: train.
// PITH_MULTIVERSION compiles a function for AVX-512, AVX2 and the baseline, and the loader picks one at start.
#pragma once

#include <cstdint>
#include <cstring>

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__)
#define PITH_MULTIVERSION __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define PITH_MULTIVERSION
#endif
#define PITH_INLINE inline __attribute__((always_inline))
#define PITH_LAMBDA_INLINE __attribute__((always_inline))

namespace pith::train {

// Vectors never cross a call that is not inlined, so that no calling convention depends on the instruction set.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"

typedef float Vec __attribute__((vector_size(64)));
typedef int32_t IntVec __attribute__((vector_size(64)));
inline constexpr int64_t kVecSize = 16;

PITH_INLINE void load(Vec & v, const float * p) {
    std::memcpy(&v, p, sizeof(Vec));
}
PITH_INLINE void store(float * p, const Vec & v) {
    std::memcpy(p, &v, sizeof(Vec));
}

// Halving additions: the order is the same for every instruction set.
PITH_INLINE float sum_of(const Vec & v) {
    float s[kVecSize];
    store(s, v);
    for (int half = kVecSize / 2; half > 0; half /= 2) {
        for (int i = 0; i < half; ++i) { s[i] += s[i + half]; }
    }
    return s[0];
}
PITH_INLINE float max_of(const Vec & v) {
    float m[kVecSize];
    store(m, v);
    for (int half = kVecSize / 2; half > 0; half /= 2) {
        for (int i = 0; i < half; ++i) { m[i] = m[i] > m[i + half] ? m[i] : m[i + half]; }
    }
    return m[0];
}

// exp(x) for x <= 0 (values under -87 become about 1e-38): 2^round(x/ln 2) times a polynomial of degree 6; relative error 2e-7.
PITH_INLINE void exp_nonpositive(Vec & x) {
    const Vec low = Vec{} - 87.0F;
    x = x < low ? low : x;
    const Vec t = x * 1.44269504F;
    const Vec shift = Vec{} + 12582912.0F;  // 1.5 · 2^23: adding it rounds to a whole number
    const Vec shifted = t + shift;
    const Vec whole = shifted - shift;
    const Vec r = (x - whole * 0.693145752F) - whole * 1.42860677e-6F;
    Vec p = Vec{} + 1.3888889e-3F;
    p = p * r + 8.3333333e-3F;
    p = p * r + 4.1666667e-2F;
    p = p * r + 1.6666667e-1F;
    p = p * r + 0.5F;
    p = p * r + 1.0F;
    p = p * r + 1.0F;
    IntVec bits;
    std::memcpy(&bits, &shifted, sizeof(bits));
    bits = (bits - 0x4B400000 + 127) << 23;
    Vec scale;
    std::memcpy(&scale, &bits, sizeof(scale));
    x = p * scale;
}

#pragma GCC diagnostic pop

}  // namespace pith::train
