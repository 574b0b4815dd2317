// cpu_byte_products.h - Σ_r |w_r · v| of many entries v and the rows w_r of a matrix, by products of signed bytes.
// Stage: attention → evidence. Raw pointers only: no ggml.
//
// A row x becomes bytes b_c = round(127 x_c / max|x|) and the scale s for which the row made of them, s·b, has the product
// |x|² with x: what rounding leaves out is then perpendicular to x, which is about the way that a sum of magnitudes grows.
// Products are whole numbers, each made an f32, times its w's scale, added in the order of the rows: every unit gives the same
// bits, and an entry's sum does not depend on what is computed beside it.
// Error: for rows of normal numbers about 0.01 / √rows of the sum, root mean square: 2e-4 for 2,048 (byte_products_test.cpp).
// Cost:  n · rows · dim multiply-adds, the products never stored.   Threads: const-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "attention/cpu/cpu_entries.h"

namespace pith {

// What multiplies bytes. Without one the products of cpu_entries.h in f32 are as fast.
enum class ByteUnit {
    kNone,
    kAvxVnni,     // x86, vectors of 256 bits
    kAvx512Vnni,  // of 512 bits
    kAmx,         // tiles of 16 × 64 bytes
};
const char * to_string(ByteUnit unit);
// Those of this processor, best first; none that the target chosen by use_cpu_attention_target() stands below.
std::vector<ByteUnit> byte_units();
ByteUnit best_byte_unit();

inline constexpr int kByteRows = 16;      // rows come in multiples of it, padded with zeros
inline constexpr int kByteEntries = 64;   // entries multiplied at a time
inline constexpr int kMaxByteDim = 1024;  // a block of entries lies on the stack
inline constexpr int kByteTile = 64;      // bytes of a row that a tile holds
inline bool can_multiply_bytes(int dim) {
    return dim > 0 && dim % 16 == 0 && dim <= kMaxByteDim;
}

// A matrix in bytes. kByteTile bytes behind the last row can be read.
struct ByteRows {
    const int8_t * bytes = nullptr;    // [n_rows][dim]
    const float * scales = nullptr;    // [n_rows]
    const int32_t * starts = nullptr;  // [n_rows] -128 Σ bytes: what a product with bytes that stand 128 too high starts from
    int n_rows = 0;                    // a multiple of kByteRows
    int dim = 0;
};

// rows [n][stride floats]  →  bytes [n][dim], scales [n], starts [n]. A row below 1e-30 is one of zeros.
void round_to_bytes(const float * rows, size_t stride, int n, int dim, int8_t * bytes, float * scales, int32_t * starts);

// out[m][j] = Σ over the rows r of matrix m of |w_r · entry j|. REQUIRES: unit is one of byte_units(); can_multiply_bytes() of
// the entries' size, which the matrices share.
void sum_byte_magnitudes(ByteUnit unit, const EntryRows & entries, std::span<const ByteRows> matrices,
                         std::span<float * const> out);

}  // namespace pith
