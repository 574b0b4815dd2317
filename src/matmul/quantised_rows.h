// quantised_rows.h - rows of activations in 8 bits, as products with quantised weights read them. Stage: matmul. No ggml.
//
// A row is cut into blocks of 256, each with a scale of its own: x ≈ scale · quants, scale = max|x| / 127. Beside the quants
// stand their sums, which weights with an offset or a minimum want. Products sum bytes exactly, so that what is rounded here is
// all that a product rounds but for a few operations in f32 each 256 elements (or 32).
#pragma once

#include <cstddef>
#include <cstdint>

namespace pith {

inline constexpr size_t kQuantBlock = 256;

struct QuantisedBlock {
    int8_t quants[kQuantBlock];
    int32_t offsets[16];  // -32 times the sum of 16 quants: what an offset of 32 takes off (Q6_K)
    int16_t sums[8];      // of 32 quants
    float scale;
    int32_t wide_offsets[8];  // -128 times the sum of 32 quants: what an offset of 128 takes off (IQ4_XS)
    uint8_t unused[12];       // whole cache lines
};
static_assert(sizeof(QuantisedBlock) == 384);

// The same for weights whose groups of 32 have a scale each: so have the rows. Two neighbouring groups lie half by half, the
// first 16 of both before the last 16 of both: in the order in which their weights come out of 16 bytes each. Where a row ends
// inside a block its last groups are not there.
struct QuantisedGroups {
    int8_t quants[kQuantBlock];
    float scales[8];
    int32_t sums[8];       // of a group's quants
    float scaled_sums[8];  // times the scale
    uint8_t unused[32];
};
static_assert(sizeof(QuantisedGroups) == sizeof(QuantisedBlock));

// Where the k-th element of group g is among a block's quants; k + 1 is the next one, unless it is the 16th.
constexpr size_t place_in_groups(size_t g, size_t k) {
    return g / 2 * 64 + k / 16 * 32 + g % 2 * 16 + k % 16;
}

// Rows are made up to a whole tile of the matrix unit; what is in those behind the last counts for nothing.
inline constexpr size_t kQuantisedRowTile = 16;
inline size_t padded_rows(size_t n) {
    return (n + kQuantisedRowTile - 1) / kQuantisedRowTile * kQuantisedRowTile;
}

// blocks [⌈n_in / 256⌉][block_stride]: block b of all rows, then block b + 1. One of the two kinds.
struct RowsToQuantise {
    const float * x = nullptr;  // [n][stride]
    size_t stride = 0;          // floats from row to row
    size_t n = 0;
    size_t n_in = 0;          // a multiple of 256; for groups, of 32
    size_t block_stride = 0;  // rows from a block to the next one, at least padded_rows(n)
    QuantisedBlock * blocks = nullptr;
    QuantisedGroups * groups = nullptr;
};

inline size_t quantised_bytes(size_t n_in, size_t n) {
    return (n_in + kQuantBlock - 1) / kQuantBlock * padded_rows(n) * sizeof(QuantisedBlock);
}

// The part of thread ith of n_threads. A row's bits do not depend on the others.
void quantise_part(const RowsToQuantise & rows, int ith, int n_threads);

}  // namespace pith
