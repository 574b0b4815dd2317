// cpu_byte_units.cpp - byte products on AVX-VNNI and AMX.
//
// AMX: a tile of 16 rows of the matrix times four tiles of 16 entries; their 16 × 16 sums go through memory, because nothing
// else reads a tile.
// Source: Intel 64 and IA-32 Architectures Software Developer's Manual, VPDPBUSD, TDPBSSD, LDTILECFG.
#include "attention/cpu/cpu_byte_units.h"

#include <algorithm>
#include <cstring>

#if defined(__x86_64__) && defined(__linux__) && defined(__GNUC__)
#define PITH_HAVE_BYTE_UNITS
#include <immintrin.h>
#endif

#include "device/amx.h"

// GCC 12 warns of uninitialised values inside its own AVX-512 headers.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif

namespace pith {

#ifdef PITH_HAVE_BYTE_UNITS

#define PITH_VNNI_TARGET __attribute__((target("avx2,fma,avxvnni")))
#define PITH_AMX_BYTES __attribute__((target("avx512f,avx512bw,avx512vl,amx-tile,amx-int8")))

namespace {

constexpr int kTile = AmxTiles::kRows;  // rows, and 32-bit columns
constexpr int kGroups = kByteEntries / kTile;
constexpr int kTileSums = kTile * kTile;

static_assert(kByteTile == AmxTiles::kRowBytes);

// Sums stay in tiles 0 to 3, one a group; 4 holds rows of the matrix, 5 to 7 hold entries.
PITH_AMX_BYTES inline void store_sums(int32_t * sums) {
    _tile_stored(0, sums, kByteTile);
    _tile_stored(1, sums + kTileSums, kByteTile);
    _tile_stored(2, sums + 2 * kTileSums, kByteTile);
    _tile_stored(3, sums + 3 * kTileSums, kByteTile);
    settle(sums);
}

// sums [group][row][entry] of 16 rows at w.
PITH_AMX_BYTES inline void multiply(const int8_t * w, int dim, const uint8_t * packed, int32_t * sums) {
    const size_t group = kTile * padded_byte_dim(dim);
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (int c = 0; c < dim; c += kByteTile) {
        const uint8_t * at = packed + kTile * c;
        _tile_loadd(4, w + c, dim);  // behind the row there are others, and zeros among the entries
        _tile_loadd(5, at, kByteTile);
        _tile_loadd(6, at + group, kByteTile);
        _tile_loadd(7, at + 2 * group, kByteTile);
        _tile_dpbssd(0, 4, 5);
        _tile_loadd(5, at + 3 * group, kByteTile);
        _tile_dpbssd(1, 4, 6);
        _tile_dpbssd(2, 4, 7);
        _tile_dpbssd(3, 4, 5);
    }
    store_sums(sums);
}

// The same for rows of one tile: entries of the first two groups are in tiles 5 and 6 already.
PITH_AMX_BYTES inline void load_groups(const uint8_t * packed) {
    _tile_loadd(5, packed, kByteTile);
    _tile_loadd(6, packed + kTile * kByteTile, kByteTile);
}
PITH_AMX_BYTES inline void multiply_narrow(const int8_t * w, int dim, const uint8_t * packed, int32_t * sums) {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    _tile_loadd(4, w, dim);
    _tile_loadd(7, packed + 2 * kTile * kByteTile, kByteTile);
    _tile_dpbssd(2, 4, 7);
    _tile_dpbssd(0, 4, 5);
    _tile_loadd(7, packed + 3 * kTile * kByteTile, kByteTile);
    _tile_dpbssd(1, 4, 6);
    _tile_dpbssd(3, 4, 7);
    store_sums(sums);
}

PITH_AMX_BYTES inline void add_magnitudes(const int32_t * sums, const float * scales, __m512 (&totals)[kGroups]) {
    for (int r = 0; r < kTile; ++r) {
        const __m512 scale = _mm512_set1_ps(scales[r]);
        for (int g = 0; g < kGroups; ++g) {
            const __m512i y = _mm512_load_si512(sums + g * kTileSums + r * kTile);
            totals[g] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(_mm512_abs_epi32(y)), scale, totals[g]);
        }
    }
}

}  // namespace

PITH_AMX_BYTES void sum_byte_magnitudes_amx(const uint8_t * packed, const ByteRows & rows, float * sums) {
    alignas(64) int32_t products[2][kGroups * kTileSums];
    __m512 totals[kGroups];
    for (__m512 & total : totals) { total = _mm512_setzero_ps(); }
    settle(packed);
    const bool narrow = rows.dim <= kByteTile;
    if (narrow) { load_groups(packed); }
    // The sums of the 16 rows before are added up while the processor multiplies the next ones.
    for (int first = 0; first <= rows.n_rows; first += kTile) {
        if (first < rows.n_rows) {
            const int8_t * w = rows.bytes + static_cast<size_t>(first) * static_cast<size_t>(rows.dim);
            int32_t * to = products[first / kTile % 2];
            if (narrow) {
                multiply_narrow(w, rows.dim, packed, to);
            } else {
                multiply(w, rows.dim, packed, to);
            }
        }
        if (first > 0) { add_magnitudes(products[(first / kTile + 1) % 2], rows.scales + first - kTile, totals); }
    }
    for (int g = 0; g < kGroups; ++g) { _mm512_storeu_ps(sums + g * kTile, totals[g]); }
}

PITH_VNNI_TARGET void sum_byte_magnitudes_avx(const uint8_t * packed, const ByteRows & rows, float * sums) {
    constexpr int kRows = 4;
    static_assert(kByteRows % kRows == 0);
    const auto dim = static_cast<size_t>(rows.dim);
    for (int g = 0; g < kGroups; ++g) {
        const uint8_t * entries = packed + static_cast<size_t>(g) * kTile * padded_byte_dim(rows.dim);
        __m256 totals[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
        for (int first = 0; first < rows.n_rows; first += kRows) {
            const int8_t * w = rows.bytes + static_cast<size_t>(first) * dim;
            __m256i y[kRows][2];
            for (int r = 0; r < kRows; ++r) { y[r][0] = y[r][1] = _mm256_set1_epi32(rows.starts[first + r]); }
            for (size_t c = 0; c < dim; c += 4) {
                const __m256i low = _mm256_loadu_si256(reinterpret_cast<const __m256i *>(entries + kTile * c));
                const __m256i high = _mm256_loadu_si256(reinterpret_cast<const __m256i *>(entries + kTile * c + 32));
                for (int r = 0; r < kRows; ++r) {
                    int32_t quad = 0;
                    std::memcpy(&quad, w + static_cast<size_t>(r) * dim + c, sizeof(quad));
                    const __m256i factor = _mm256_set1_epi32(quad);
                    y[r][0] = _mm256_dpbusd_avx_epi32(y[r][0], low, factor);
                    y[r][1] = _mm256_dpbusd_avx_epi32(y[r][1], high, factor);
                }
            }
            for (int r = 0; r < kRows; ++r) {
                const __m256 scale = _mm256_set1_ps(rows.scales[first + r]);
                for (int i = 0; i < 2; ++i) {
                    totals[i] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(_mm256_abs_epi32(y[r][i])), scale, totals[i]);
                }
            }
        }
        _mm256_storeu_ps(sums + g * kTile, totals[0]);
        _mm256_storeu_ps(sums + g * kTile + 8, totals[1]);
    }
}

#else

void sum_byte_magnitudes_amx(const uint8_t * /*packed*/, const ByteRows & /*rows*/, float * /*sums*/) {}
void sum_byte_magnitudes_avx(const uint8_t * /*packed*/, const ByteRows & /*rows*/, float * /*sums*/) {}

#endif

}  // namespace pith
