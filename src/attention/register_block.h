// register_block.h - the product of two narrow panels, kept in registers: what attention rows, moments and quadratic forms are
// made of. Stage: attention.   Pure C++: no ggml, no I/O.
//
// 32 registers of 16 floats hold blocks of 8 × 32 sums (has_wide_registers()), smaller register files 4 × 16.
// Only inside functions marked PITH_CLONES: vectors do not cross calls.
#pragma once

#include <cstdint>
#include <cstring>

#include "core/multiversion.h"

namespace pith {

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"

inline bool has_wide_registers() {
#if defined(__x86_64__) && defined(__GNUC__)
    static const bool wide = __builtin_cpu_supports("avx512f") != 0;
    return wide;
#else
    return false;
#endif
}

PITH_ALWAYS_INLINE void store(float * p, const FloatVec & v) {
    std::memcpy(p, &v, sizeof(v));
}

// Row i at data + i · stride.
struct Panel {
    const float * data;
    int64_t stride;
};

// sums[r][j] += Σ_i a[i][r] · b[i][j] over n rows.
template <int kRows, int kVectors>
PITH_ALWAYS_INLINE void multiply_block(const Panel & a, const Panel & b, int64_t n, FloatVec (&sums)[kRows][kVectors]) {
    for (int64_t i = 0; i < n; ++i) {
        const float * left = a.data + i * a.stride;
        FloatVec right[kVectors];
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v) { load(right[v], b.data + i * b.stride + v * kFloatLanes); }
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
            for (int v = 0; v < kVectors; ++v) { sums[r][v] += right[v] * left[r]; }
        }
    }
}

template <int kRows, int kVectors>
PITH_ALWAYS_INLINE void store_block(const FloatVec (&sums)[kRows][kVectors], float * to, int64_t stride) {
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v) { store(to + r * stride + v * kFloatLanes, sums[r][v]); }
    }
}

#pragma GCC diagnostic pop

}  // namespace pith
