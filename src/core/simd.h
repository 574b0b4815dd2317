// simd.h - 16 or 8 floats, or 8 doubles at once, and functions compiled for several instruction sets. Stage: all.
// Pure C++: no ggml, no I/O.
//
// Vectors of GCC's and Clang's own extension, lowered to what the instruction set has; they never cross a call that is not
// inlined, so that no calling convention depends on it. PITH_CLONES compiles a function for AVX-512, AVX2 and the baseline, and
// the loader picks one at start. Kernels of attention, products and the trainer have Highway instead
// (device/cpu_vectors-inl.h): vectors as wide as the processor's.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <iterator>

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define PITH_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define PITH_CLONES
#endif
#define PITH_ALWAYS_INLINE inline __attribute__((always_inline))
#define PITH_INLINE_LAMBDA __attribute__((always_inline))

namespace pith {

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"

typedef float FloatVec __attribute__((vector_size(64)));
typedef int32_t IntVec __attribute__((vector_size(64)));
typedef double DoubleVec __attribute__((vector_size(64)));
inline constexpr int kFloatLanes = 16;
inline constexpr int kDoubleLanes = 8;
// Half as wide. Without AVX-512 GCC keeps wider ones in memory: there a loop over these is two to ten times as fast.
typedef float EightFloats __attribute__((vector_size(32)));
inline constexpr int kEightLanes = 8;

// Whether PITH_CLONES chooses AVX-512, whose registers hold a FloatVec.
inline bool has_wide_registers() {
#if defined(__x86_64__) && defined(__GNUC__)
    return __builtin_cpu_supports("avx512bw") != 0 && __builtin_cpu_supports("avx512dq") != 0 &&
           __builtin_cpu_supports("avx512vl") != 0;
#else
    return false;
#endif
}

template <class V, class T>
PITH_ALWAYS_INLINE void load(V & v, const T * p) {
    std::memcpy(&v, p, sizeof(V));
}
template <class V>
PITH_ALWAYS_INLINE void store(float * p, const V & v) {
    std::memcpy(p, &v, sizeof(V));
}

// The first n floats of a vector, n less than it has; the rest is `fill`.
template <class V>
PITH_ALWAYS_INLINE void load_tail(V & v, const float * p, int64_t n, float fill) {
    float values[sizeof(V) / sizeof(float)];
    std::fill(std::begin(values), std::end(values), fill);
    std::memcpy(values, p, static_cast<size_t>(n) * sizeof(float));
    load(v, values);
}
template <class V>
PITH_ALWAYS_INLINE void store_tail(float * p, const V & v, int64_t n) {
    float values[sizeof(V) / sizeof(float)];
    store(values, v);
    std::memcpy(p, values, static_cast<size_t>(n) * sizeof(float));
}
// The same for n up to what it has: a whole vector in one go.
template <class V>
PITH_ALWAYS_INLINE void load_first(V & v, const float * p, int64_t n, float fill) {
    if (n == sizeof(V) / sizeof(float)) {
        load(v, p);
        return;
    }
    load_tail(v, p, n, fill);
}
template <class V>
PITH_ALWAYS_INLINE void store_first(float * p, const V & v, int64_t n) {
    if (n == sizeof(V) / sizeof(float)) {
        store(p, v);
        return;
    }
    store_tail(p, v, n);
}

template <class To, class From>
PITH_ALWAYS_INLINE void same_bits(To & to, const From & from) {
    static_assert(sizeof(To) == sizeof(From));
    std::memcpy(&to, &from, sizeof(To));
}

// Halving additions: the order is the same for every instruction set.
template <class V>
PITH_ALWAYS_INLINE float sum_of(const V & v) {
    constexpr int kLanes = sizeof(V) / sizeof(float);
    float s[kLanes];
    store(s, v);
    for (int half = kLanes / 2; half > 0; half /= 2) {
        for (int i = 0; i < half; ++i) { s[i] += s[i + half]; }
    }
    return s[0];
}
template <class V>
PITH_ALWAYS_INLINE float max_of(const V & v) {
    constexpr int kLanes = sizeof(V) / sizeof(float);
    float m[kLanes];
    store(m, v);
    for (int half = kLanes / 2; half > 0; half /= 2) {
        for (int i = 0; i < half; ++i) { m[i] = m[i] > m[i + half] ? m[i] : m[i + half]; }
    }
    return m[0];
}

// exp(x) for x <= 0 (values under -87 become about 1e-38): 2^round(x/ln 2) times a polynomial of degree 6; relative error 2e-7.
template <class V>
PITH_ALWAYS_INLINE void exp_nonpositive(V & x) {
    const V low = V{} - 87.0F;
    x = x < low ? low : x;
    const V t = x * 1.44269504F;
    const V shift = V{} + 12582912.0F;  // 1.5 · 2^23: adding it rounds to a whole number
    const V shifted = t + shift;
    const V whole = shifted - shift;
    const V r = (x - whole * 0.693145752F) - whole * 1.42860677e-6F;
    V p = V{} + 1.3888889e-3F;
    p = p * r + 8.3333333e-3F;
    p = p * r + 4.1666667e-2F;
    p = p * r + 1.6666667e-1F;
    p = p * r + 0.5F;
    p = p * r + 1.0F;
    p = p * r + 1.0F;
    decltype(x < x) bits;
    same_bits(bits, shifted);
    bits = (bits - 0x4B400000 + 127) << 23;
    V scale;
    same_bits(scale, bits);
    x = p * scale;
}

// log₂ x for x >= 0, a finite number at 0: the exponent, and a minimax polynomial of degree 8 for log₂(1 + r) / r, where
// 1 + r = x · 2^-exponent lies in [√½, √2). Relative error 3e-8 beside rounding.
template <class V>
PITH_ALWAYS_INLINE void log2_of(const V & x, V & out) {
    constexpr int32_t kRootOfHalf = 0x3f3504f3;
    using Ints = decltype(x < x);
    Ints bits;
    same_bits(bits, x);
    bits -= kRootOfHalf;
    const V exponent = __builtin_convertvector(bits >> 23, V);
    const Ints mantissa = (bits & 0x007fffff) + kRootOfHalf;
    V r;
    same_bits(r, mantissa);
    r -= 1.0F;
    V p = r * 0.125837058F - 0.207269758F;
    p = p * r + 0.215715602F;
    p = p * r - 0.238944814F;
    p = p * r + 0.287916243F;
    p = p * r - 0.360703677F;
    p = p * r + 0.480910629F;
    p = p * r - 0.721347332F;
    p = p * r + 1.44269502F;
    out = r * p + exponent;
}

#pragma GCC diagnostic pop

}  // namespace pith
