// moment_kernel.h - second moments of queries, and quadratic forms of keys, on plain arrays. Stage: attention → evidence.
// Pure C++: no ggml, no I/O.
//
// Arithmetic: f32; means in f64.   Threads: const-safe.
#pragma once

#include <cstdint>

namespace pith {

inline constexpr int kMomentColumns = 32;  // rows of queries are padded to a multiple of it

inline int64_t padded_columns(int d) {
    return (int64_t{d} + kMomentColumns - 1) / kMomentColumns * kMomentColumns;
}

// rows [n][stride]  →  mean [d], squares [d][d] = Σ (row - mean)(row - mean)ᵀ.
// scratch: [kMomentRows][padded_columns(d)].
inline constexpr int kMomentRows = 128;
void moments_of(const float * rows, int64_t stride, int64_t n, int d, float * scratch, float * mean, float * squares);

// One query head's linear and quadratic form as the kernel reads them. Q [d][d]  →  [⌈d / 8⌉][d][8], element (r, c) at
// [r / 8][c][r % 8], then the linear form, both padded with zeros.
int64_t packed_form_floats(int d);
void pack_form(const float * quadratic, const float * linear, int d, float * packed);

// tile [d][kTileEntries] of keys k  →  out[e] = k_e · (Q·k_e + linear), kTileEntries of them.
void evaluate_form(const float * packed, const float * tile, int d, float * out);

}  // namespace pith
