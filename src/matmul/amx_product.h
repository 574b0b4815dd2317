// amx_product.h - quantised products on the tiles of AMX. Stage: matmul.
//
// A weight times its group's scale has up to 14 bits: it lies in two planes of bytes, 256 · high + low, so that tiles add up a
// whole block of 256 without a scale in between.
#pragma once

#include <cstddef>
#include <cstdint>

#include "matmul/quantised_rows.h"

namespace pith {

inline constexpr size_t kAmxColumns = 32;

// 32 columns of one block of weights.
struct AmxPanel {
    alignas(64) uint8_t low[kQuantBlock / 4][kAmxColumns][4];  // four neighbouring weights of a column side by side
    alignas(64) int8_t high[kQuantBlock / 4][kAmxColumns][4];
};

struct AmxScales {
    const float * d = nullptr;       // [32]
    const float * dmin = nullptr;    // [32]
    const int32_t * mins = nullptr;  // [4][32], pairs of int16; nullptr: the type has no minima
};

// Whether processor and system have tiles of bytes, and AVX-512 beside them; asks the system for them once.
bool has_amx_product();

// sums [n][32] += rows · panel.   REQUIRES: has_amx_product(), inside an AmxSession; rows [padded_rows(n)].
void multiply_amx(const AmxPanel & panel, const AmxScales & scales, const QuantisedBlock * rows, size_t n, float * sums);

}  // namespace pith
