// gemm_bf16.cpp - the products of the training step in bf16: on AMX, or by AVX-512's dot products. Stage: train.
//
// Both read the same tiles. A tile product adds, over 32 values of p, B'(16 j × 32 p) · A'(32 p × 16 i) to a 16 × 16 tile of c.
// One operand's tile holds rows of p for each j; the other holds pairs (p, p+1) for each i side by side. AMX keeps four tiles
// of c (32 × 32) in registers, AVX-512 eight of its columns: a pair of p for one j, spread, meets the pairs of 32 i. Source:
// Intel 64 and IA-32 Architectures Software Developer's Manual, TDPBF16PS and VDPBF16PS.
#include "train/kernels/gemm_bf16.h"

#include <algorithm>
#include <cstring>
#include <vector>

#if defined(__x86_64__) && defined(__linux__) && defined(__GNUC__)
#define PITH_HAVE_BF16
#include <immintrin.h>
#endif

#include "device/amx.h"

// GCC 12 warns of uninitialised values inside its own AVX-512 headers.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif

namespace pith::train {

#ifdef PITH_HAVE_BF16

namespace {

#define PITH_AVX512_BF16 __attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16")))
#define PITH_AMX __attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16,amx-tile,amx-bf16")))

constexpr int64_t kBlock = 32;  // rows of a and b per block, and p per tile
constexpr int64_t kTile = AmxTiles::kRows;
constexpr int64_t kTileSize = 512;  // bf16 of a tile
constexpr int64_t kRowBytes = AmxTiles::kRowBytes;
constexpr int64_t kStreamedBlocks = 8;  // packed together where rows lie side by side: 1 KiB of memory in one go

// The compiler's own question also asks whether the system keeps these registers.
bool has_avx512_bf16() {
    return __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
           __builtin_cpu_supports("avx512vl") != 0 && __builtin_cpu_supports("avx512bf16") != 0;
}

std::vector<Bf16Unit> ask_for_units() {
    std::vector<Bf16Unit> units;
    if (has_avx512_bf16()) { units.push_back(Bf16Unit::kAvx512); }
    if (has_avx512_bf16() && ask_for_amx(AmxNumbers::kBf16)) { units.push_back(Bf16Unit::kAmx); }
    return units;
}

uint16_t to_bf16(float value) {  // round to nearest even
    uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof(bits));
    return static_cast<uint16_t>((bits + 0x7FFFU + (bits >> 16 & 1U)) >> 16);
}

// Where element (row, p) of a 16 × 32 tile lies: [row][p], or pairs [p / 2][row][p % 2].
int64_t place(bool pairs, int64_t row, int64_t p) {
    return pairs ? p / 2 * 32 + row * 2 + p % 2 : row * 32 + p;
}

void pack_tile_slowly(const MatrixView & x, int64_t row0, int64_t n_rows, int64_t p0, int64_t n_p, bool pairs,
                      uint16_t * tile) {
    std::fill(tile, tile + kTileSize, uint16_t{0});
    for (int64_t r = 0; r < n_rows; ++r) {
        for (int64_t p = 0; p < n_p; ++p) {
            tile[place(pairs, r, p)] = to_bf16(x.data[(row0 + r) * x.outer + (p0 + p) * x.inner]);
        }
    }
}

// A 16 × 16 matrix of 32-bit words, transposed: pairs of rows are interleaved by words, then by two, then by four, twice.
PITH_AVX512_BF16 inline void transpose(__m512i (&x)[16]) {
    __m512i y[16];
    for (int i = 0; i < 16; i += 2) {
        y[i] = _mm512_unpacklo_epi32(x[i], x[i + 1]);
        y[i + 1] = _mm512_unpackhi_epi32(x[i], x[i + 1]);
    }
    for (int i = 0; i < 16; i += 4) {
        x[i] = _mm512_unpacklo_epi64(y[i], y[i + 2]);
        x[i + 1] = _mm512_unpackhi_epi64(y[i], y[i + 2]);
        x[i + 2] = _mm512_unpacklo_epi64(y[i + 1], y[i + 3]);
        x[i + 3] = _mm512_unpackhi_epi64(y[i + 1], y[i + 3]);
    }
    constexpr int kEven = 0x88, kOdd = 0xDD;
    for (int half = 0; half < 16; half += 8) {
        for (int i = 0; i < 4; ++i) {
            y[half + i] = _mm512_shuffle_i32x4(x[half + i], x[half + i + 4], kEven);
            y[half + i + 4] = _mm512_shuffle_i32x4(x[half + i], x[half + i + 4], kOdd);
        }
    }
    for (int i = 0; i < 8; ++i) {
        x[i] = _mm512_shuffle_i32x4(y[i], y[i + 8], kEven);
        x[i + 8] = _mm512_shuffle_i32x4(y[i], y[i + 8], kOdd);
    }
}

// A whole tile whose rows or whose p are contiguous; the order that the tile does not want is transposed, a pair as one word.
PITH_AVX512_BF16 void pack_tile(const MatrixView & x, int64_t row0, int64_t p0, bool pairs, uint16_t * tile) {
    __m512i words[16];
    if (x.inner == 1) {
        for (int64_t r = 0; r < kTile; ++r) {
            const float * row = x.data + (row0 + r) * x.outer + p0;
            words[r] = reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(_mm512_loadu_ps(row + kTile), _mm512_loadu_ps(row)));
        }
    } else {
        alignas(64) uint16_t order[32];  // of [p: 16 rows][p+1: 16 rows] into pairs
        for (int i = 0; i < 16; ++i) {
            order[2 * i] = static_cast<uint16_t>(i);
            order[2 * i + 1] = static_cast<uint16_t>(i + 16);
        }
        const __m512i interleave = _mm512_load_si512(order);
        for (int64_t r = 0; r < kTile; ++r) {
            const float * row = x.data + row0 + (p0 + 2 * r) * x.inner;
            const auto packed =
                reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(_mm512_loadu_ps(row + x.inner), _mm512_loadu_ps(row)));
            words[r] = _mm512_permutexvar_epi16(interleave, packed);
        }
    }
    if (pairs == (x.inner == 1)) { transpose(words); }
    for (int64_t r = 0; r < kTile; ++r) { _mm512_storeu_si512(tile + r * kBlock, words[r]); }
}

// An operand: `n` rows of `k`, packed in blocks of 32 rows; block r, step s holds two tiles at tiles(r, s).
struct Operand {
    MatrixView view;
    int64_t begin;  // rows [begin, end)
    int64_t end;
    int64_t k;
    bool pairs;
    std::vector<uint16_t> & memory;

    int64_t n_steps() const { return (k + kBlock - 1) / kBlock; }
    int64_t n_blocks() const { return (end - begin + kBlock - 1) / kBlock; }
    uint16_t * tiles(int64_t slot, int64_t step) const { return memory.data() + (slot * n_steps() + step) * 2 * kTileSize; }
    // Blocks [first, first + n) into memory slots 0 … n - 1. Where p lies far apart in memory, all of their rows are taken
    // while one p is at hand.
    void pack(int64_t first, int64_t n) const {
        if (view.inner == 1) {
            for (int64_t i = 0; i < n; ++i) {
                for (int64_t step = 0; step < n_steps(); ++step) { pack_step(first + i, i, step); }
            }
            return;
        }
        for (int64_t step = 0; step < n_steps(); ++step) {
            for (int64_t i = 0; i < n; ++i) { pack_step(first + i, i, step); }
        }
    }

private:
    void pack_step(int64_t block, int64_t slot, int64_t step) const {
        const bool contiguous = view.inner == 1 || view.outer == 1;
        for (int64_t half = 0; half < 2; ++half) {
            const int64_t row0 = begin + block * kBlock + half * kTile;
            const int64_t p0 = step * kBlock;
            const int64_t n_rows = std::clamp<int64_t>(end - row0, 0, kTile);
            const int64_t n_p = std::min(kBlock, k - p0);
            uint16_t * tile = tiles(slot, step) + half * kTileSize;
            if (contiguous && n_rows == kTile && n_p == kBlock) {
                pack_tile(view, row0, p0, pairs, tile);
            } else {
                pack_tile_slowly(view, row0, n_rows, p0, n_p, pairs, tile);
            }
        }
    }
};

PITH_AMX void multiply_on_amx(const uint16_t * a, const uint16_t * b, int64_t n_steps, float * c, ptrdiff_t stride) {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (int64_t s = 0; s < n_steps; ++s) {
        const uint16_t * at = a + s * 2 * kTileSize;
        const uint16_t * bt = b + s * 2 * kTileSize;
        _tile_loadd(4, bt, kRowBytes);
        _tile_loadd(5, bt + kTileSize, kRowBytes);
        _tile_loadd(6, at, kRowBytes);
        _tile_loadd(7, at + kTileSize, kRowBytes);
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
    const auto row_bytes = static_cast<size_t>(stride) * sizeof(float);
    _tile_stored(0, c, row_bytes);
    _tile_stored(1, c + kTile, row_bytes);
    _tile_stored(2, c + kTile * stride, row_bytes);
    _tile_stored(3, c + kTile * stride + kTile, row_bytes);
}

PITH_AVX512_BF16 void multiply_on_avx512(const uint16_t * a, const uint16_t * b, int64_t n_steps, float * c, ptrdiff_t stride) {
    constexpr int64_t kColumns = 8;
    for (int64_t j0 = 0; j0 < kBlock; j0 += kColumns) {
        __m512 sums[kColumns][2];
        for (auto & sum : sums) { sum[0] = sum[1] = _mm512_setzero_ps(); }
        const uint16_t * rows = b + j0 / kTile * kTileSize + j0 % kTile * kBlock;
        for (int64_t s = 0; s < n_steps; ++s) {
            const uint16_t * at = a + s * 2 * kTileSize;
            const uint16_t * bt = rows + s * 2 * kTileSize;
            for (int64_t pair = 0; pair < kTile; ++pair) {
                const auto first = reinterpret_cast<__m512bh>(_mm512_loadu_si512(at + pair * kBlock));
                const auto second = reinterpret_cast<__m512bh>(_mm512_loadu_si512(at + kTileSize + pair * kBlock));
#pragma GCC unroll 8
                for (int64_t j = 0; j < kColumns; ++j) {
                    int32_t both = 0;
                    std::memcpy(&both, bt + j * kBlock + 2 * pair, sizeof(both));
                    const auto spread = reinterpret_cast<__m512bh>(_mm512_set1_epi32(both));
                    sums[j][0] = _mm512_dpbf16_ps(sums[j][0], first, spread);
                    sums[j][1] = _mm512_dpbf16_ps(sums[j][1], second, spread);
                }
            }
        }
        for (int64_t j = 0; j < kColumns; ++j) {
            _mm512_storeu_ps(c + (j0 + j) * stride, sums[j][0]);
            _mm512_storeu_ps(c + (j0 + j) * stride + kTile, sums[j][1]);
        }
    }
}

using Multiply = void (*)(const uint16_t * a, const uint16_t * b, int64_t n_steps, float * c, ptrdiff_t stride);

PITH_AMX void configure() {
    static const AmxTiles config;
    _tile_loadconfig(&config);
}
PITH_AMX void release() {
    _tile_release();
}

void write_block(Multiply multiply, const Operand & a, const Operand & b, int64_t a_slot, int64_t b_slot, int64_t i0,
                 int64_t j0, float * c, ptrdiff_t ldc) {
    const uint16_t * at = a.tiles(a_slot, 0);
    const uint16_t * bt = b.tiles(b_slot, 0);
    const int64_t rows = std::min(kBlock, a.end - i0);
    const int64_t cols = std::min(kBlock, b.end - j0);
    if (rows == kBlock && cols == kBlock) {
        multiply(at, bt, a.n_steps(), c + i0 + j0 * ldc, ldc);
        return;
    }
    alignas(64) float edge[kBlock * kBlock];
    multiply(at, bt, a.n_steps(), edge, kBlock);
    for (int64_t j = 0; j < cols; ++j) { std::copy(edge + j * kBlock, edge + j * kBlock + rows, c + i0 + (j0 + j) * ldc); }
}

}  // namespace

std::span<const Bf16Unit> bf16_units() {
    static const std::vector<Bf16Unit> units = ask_for_units();
    return units;
}

// The operand with more blocks is packed some blocks at a time as it is used, the other one first and whole.
void gemm_bf16_on(Bf16Unit unit, const GemmShape & shape, const MatrixView & a_view, const MatrixView & b_view, float * c,
                  ptrdiff_t ldc, const GemmRange & range) {
    if (range.i_begin >= range.i_end || range.j_begin >= range.j_end) { return; }
    thread_local std::vector<uint16_t> a_memory, b_memory;
    const Operand a{a_view, range.i_begin, range.i_end, shape.k, true, a_memory};
    const Operand b{b_view, range.j_begin, range.j_end, shape.k, false, b_memory};
    const bool stream_a = a.n_blocks() > b.n_blocks();
    const Operand & whole = stream_a ? b : a;
    const Operand & streamed = stream_a ? a : b;
    const int64_t at_once = std::min(streamed.n_blocks(), streamed.view.inner == 1 ? 1 : kStreamedBlocks);
    const auto grow = [](const Operand & x, int64_t slots) {
        const auto size = static_cast<size_t>(slots * x.n_steps() * 2 * kTileSize);
        if (x.memory.size() < size) { x.memory.resize(size); }
    };
    grow(whole, whole.n_blocks());
    grow(streamed, at_once);
    const bool on_amx = unit == Bf16Unit::kAmx;
    const Multiply multiply = on_amx ? multiply_on_amx : multiply_on_avx512;
    if (on_amx) { configure(); }
    whole.pack(0, whole.n_blocks());
    for (int64_t first = 0; first < streamed.n_blocks(); first += at_once) {
        const int64_t n_packed = std::min(at_once, streamed.n_blocks() - first);
        streamed.pack(first, n_packed);
        for (int64_t s = 0; s < n_packed; ++s) {
            for (int64_t n = 0; n < whole.n_blocks(); ++n) {
                const int64_t m = first + s;
                const int64_t i0 = range.i_begin + (stream_a ? m : n) * kBlock;
                const int64_t j0 = range.j_begin + (stream_a ? n : m) * kBlock;
                write_block(multiply, a, b, stream_a ? s : n, stream_a ? n : s, i0, j0, c, ldc);
            }
        }
    }
    if (on_amx) { release(); }
}

#else

std::span<const Bf16Unit> bf16_units() {
    return {};
}
void gemm_bf16_on(Bf16Unit, const GemmShape & shape, const MatrixView & a, const MatrixView & b, float * c, ptrdiff_t ldc,
                  const GemmRange & range) {
    gemm_range(shape, a, b, c, ldc, range);
}

#endif

}  // namespace pith::train
