// cpu_byte_units.h - byte products on units of x86 that Highway has no target for: AVX-VNNI, and the tiles of AMX.
// Stage: attention → evidence.
//
// packed [4][padded / 4][16][4]: kByteEntries entries as cpu_byte_products-inl.h packs them. sums [kByteEntries], without the
// entries' scales.   Threads: reentrant.
#pragma once

#include <cstddef>
#include <cstdint>

#include "attention/cpu/cpu_byte_products.h"

namespace pith {

// Entries are packed with zeros behind their last byte, so that all tiles are whole.
inline size_t padded_byte_dim(int dim) {
    constexpr size_t kTile = kByteTile;
    return (static_cast<size_t>(dim) + kTile - 1) / kTile * kTile;
}

// REQUIRES: has_avx_vnni(); bytes of entries raised by 128.
void sum_byte_magnitudes_avx(const uint8_t * packed, const ByteRows & rows, float * sums);

// REQUIRES: has_amx_bytes(), inside a session; signed bytes of entries.
void sum_byte_magnitudes_amx(const uint8_t * packed, const ByteRows & rows, float * sums);

}  // namespace pith
