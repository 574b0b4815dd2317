// amx_product.cpp - two tiles of 16 rows times 16 columns at a time, both planes: four tiles of sums, two of rows, two of
// weights.
//
// Sums leave the tiles through memory, because nothing else reads a tile: those of one pair are added up while the processor
// multiplies the next one.
// Source: Intel 64 and IA-32 Architectures Software Developer's Manual, TDPBSUD, TDPBSSD.
#include "matmul/amx_product.h"

#include <algorithm>

#if defined(__x86_64__) && defined(__linux__) && defined(__GNUC__)
#define PITH_MAY_HAVE_AMX
#include <immintrin.h>
#endif

#include "device/amx.h"

// GCC 12 warns of uninitialised values inside its own AVX-512 headers.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif

namespace pith {

#ifdef PITH_MAY_HAVE_AMX

#define PITH_AMX_PRODUCT __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,amx-tile,amx-int8")))

namespace {

constexpr size_t kTile = AmxTiles::kRows;  // rows, and columns of 32 bits
constexpr int kRowBytes = AmxTiles::kRowBytes;
constexpr size_t kTileSums = kTile * kTile;
constexpr size_t kPair = 2 * kTile;  // rows that are multiplied together
static_assert(kTile == kQuantisedRowTile);

// Of a pair of tiles of rows: low and high of the first, low and high of the second.
struct Sums {
    alignas(64) int32_t of[4][kTileSums];
};

// 64 of the block's 256 weights, of 16 columns from `column` on, with one tile of rows or two.
constexpr size_t kQuarters = 4;

PITH_AMX_PRODUCT inline void clear_sums() {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
}
PITH_AMX_PRODUCT inline void multiply_quarter(const AmxPanel & panel, size_t column, const QuantisedBlock * rows,
                                              size_t quarter, bool both) {
    constexpr size_t kStep = kQuantBlock / 4 / kQuarters;  // words of a column in a tile
    constexpr int kStride = sizeof(panel.low[0]);
    _tile_loadd(4, rows[0].quants + 64 * quarter, sizeof(QuantisedBlock));
    _tile_loadd(6, panel.low[kStep * quarter][column], kStride);
    _tile_loadd(7, panel.high[kStep * quarter][column], kStride);
    _tile_dpbsud(0, 4, 6);
    _tile_dpbssd(1, 4, 7);
    if (both) {
        _tile_loadd(5, rows[kTile].quants + 64 * quarter, sizeof(QuantisedBlock));
        _tile_dpbsud(2, 5, 6);
        _tile_dpbssd(3, 5, 7);
    }
}
PITH_AMX_PRODUCT inline void store_sums(Sums & to, bool both) {
    _tile_stored(0, to.of[0], kRowBytes);
    _tile_stored(1, to.of[1], kRowBytes);
    if (both) {
        _tile_stored(2, to.of[2], kRowBytes);
        _tile_stored(3, to.of[3], kRowBytes);
    }
    settle(&to);
}

// What is the same for all rows that meet 16 columns.
struct ColumnScales {
    __m512 d;
    __m512 dmin;
    __m512i mins[4];
};

PITH_AMX_PRODUCT inline ColumnScales scales_at(const AmxScales & scales, size_t column) {
    ColumnScales at;
    at.d = _mm512_loadu_ps(scales.d + column);
    if (scales.mins != nullptr) {
        at.dmin = _mm512_loadu_ps(scales.dmin + column);
        for (size_t p = 0; p < 4; ++p) { at.mins[p] = _mm512_loadu_si512(scales.mins + p * kAmxColumns + column); }
    }
    return at;
}

template <bool kMins>
PITH_AMX_PRODUCT inline void add_rows(const Sums & from, const ColumnScales & at, const QuantisedBlock * rows, size_t begin,
                                      size_t end, float * sums) {
    for (size_t r = begin; r < end; ++r) {
        const size_t tile = r / kTile * 2;
        const size_t word = r % kTile * kTile;
        const __m512i low = _mm512_load_si512(from.of[tile] + word);
        const __m512i high = _mm512_load_si512(from.of[tile + 1] + word);
        const __m512i all = _mm512_add_epi32(low, _mm512_slli_epi32(high, 8));
        __m512 x = _mm512_mul_ps(_mm512_cvtepi32_ps(all), at.d);
        if constexpr (kMins) {
            __m512i less = _mm512_setzero_si512();
            for (size_t p = 0; p < 4; ++p) {
                int32_t pair = 0;
                __builtin_memcpy(&pair, rows[r].sums + 2 * p, sizeof(pair));
                less = _mm512_dpwssd_epi32(less, at.mins[p], _mm512_set1_epi32(pair));
            }
            x = _mm512_fnmadd_ps(_mm512_cvtepi32_ps(less), at.dmin, x);
        }
        float * to = sums + r * kAmxColumns;
        _mm512_storeu_ps(to, _mm512_fmadd_ps(x, _mm512_set1_ps(rows[r].scale), _mm512_loadu_ps(to)));
    }
}

template <bool kMins>
PITH_AMX_PRODUCT void multiply_rows(const AmxPanel & panel, const AmxScales & scales, const QuantisedBlock * rows, size_t n,
                                    float * sums) {
    Sums products[2];
    settle(&panel);
    const ColumnScales at[2] = {scales_at(scales, 0), scales_at(scales, kTile)};
    // Unit u: 16 columns, and the rows of a pair. While the processor multiplies one, the sums of the one before are added up,
    // a quarter behind each quarter of the products: further behind they would wait, since it looks some hundred operations
    // ahead.
    const size_t n_units = (n + kPair - 1) / kPair * 2;
    const auto rows_of = [&](size_t u) { return std::min(kPair, n - u / 2 * kPair); };
    for (size_t u = 0; u < n_units; ++u) {
        const QuantisedBlock * of = rows + u / 2 * kPair;
        const bool both = rows_of(u) > kTile;
        const bool adds = u > 0;
        const QuantisedBlock * added = rows + (u - adds) / 2 * kPair;
        float * to = sums + (u - adds) / 2 * kPair * kAmxColumns + (u - adds) % 2 * kTile;
        const size_t n_added = adds ? rows_of(u - 1) : 0;
        clear_sums();
        for (size_t quarter = 0; quarter < kQuarters; ++quarter) {
            multiply_quarter(panel, u % 2 * kTile, of, quarter, both);
            const size_t begin = std::min(n_added, quarter * (kPair / kQuarters));
            const size_t end = std::min(n_added, begin + kPair / kQuarters);
            add_rows<kMins>(products[(u + 1) % 2], at[(u + 1) % 2], added, begin, end, to);
        }
        store_sums(products[u % 2], both);
    }
    const size_t last = n_units - 1;
    add_rows<kMins>(products[last % 2], at[last % 2], rows + last / 2 * kPair, 0, rows_of(last),
                    sums + last / 2 * kPair * kAmxColumns + last % 2 * kTile);
}

}  // namespace

bool has_amx_product() {
    static const bool has = has_amx_bytes() && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vnni");
    return has;
}

void multiply_amx(const AmxPanel & panel, const AmxScales & scales, const QuantisedBlock * rows, size_t n, float * sums) {
    if (scales.mins != nullptr) {
        multiply_rows<true>(panel, scales, rows, n, sums);
    } else {
        multiply_rows<false>(panel, scales, rows, n, sums);
    }
}

#else

bool has_amx_product() {
    return false;
}
void multiply_amx(const AmxPanel & /*panel*/, const AmxScales & /*scales*/, const QuantisedBlock * /*rows*/, size_t /*n*/,
                  float * /*sums*/) {}

#endif

}  // namespace pith
