// observe_kernel.cpp - register-blocked products, powers of two, column sums.
#include "attention/observe_kernel.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "attention/fast_exp2.h"
#include "attention/register_block.h"
#include "core/multiversion.h"

namespace pith {
namespace {

constexpr int64_t kFlush = 128;  // vectors summed in f32 before they are added in f64

#pragma GCC diagnostic ignored "-Wpsabi"  // to the end of the file, where GCC would warn

typedef uint16_t ShortVec __attribute__((vector_size(32)));
typedef uint32_t WordVec __attribute__((vector_size(64)));

PITH_ALWAYS_INLINE void load_words(WordVec & v, const uint16_t * from) {
    ShortVec narrow;
    load(narrow, from);
    v = __builtin_convertvector(narrow, WordVec);
}

PITH_ALWAYS_INLINE double total(const FloatVec & v) {
    double sum = 0;
    for (int l = 0; l < kFloatLanes; ++l) { sum += static_cast<double>(v[l]); }
    return sum;
}

template <int kPower>
PITH_ALWAYS_INLINE void load_raised(FloatVec & v, const float * p) {
    load(v, p);
    if constexpr (kPower >= 2) { v *= v; }
    if constexpr (kPower == 4) { v *= v; }
}

PITH_ALWAYS_INLINE float raised(float v, int power) {
    if (power >= 2) { v *= v; }
    return power == 4 ? v * v : v;
}

// Half: exponent and mantissa moved into place mean the number times 2^-112; infinities and NaN get the widest exponent.
PITH_ALWAYS_INLINE void convert_halves(const uint16_t * from, float * to) {
    WordVec h;
    load_words(h, from);
    const WordVec magnitude = (h & 0x7fffU) << 13U;
    const FloatVec finite = reinterpret_cast<FloatVec>(magnitude) * 0x1p112F;
    const WordVec special = reinterpret_cast<WordVec>(magnitude >= 0x0f800000U) & 0x7f800000U;
    store(to, reinterpret_cast<FloatVec>(reinterpret_cast<WordVec>(finite) | special | ((h & 0x8000U) << 16U)));
}

PITH_ALWAYS_INLINE void convert_bfloats(const uint16_t * from, float * to) {
    WordVec h;
    load_words(h, from);
    store(to, reinterpret_cast<FloatVec>(h << 16U));
}

template <void (*kConvert)(const uint16_t *, float *)>
PITH_ALWAYS_INLINE void convert_all(const uint16_t * from, int64_t n, float * to) {
    int64_t j = 0;
    for (; j + kFloatLanes <= n; j += kFloatLanes) { kConvert(from + j, to + j); }
    if (j == n) { return; }
    uint16_t tail[kFloatLanes] = {};
    float values[kFloatLanes];
    std::copy(from + j, from + n, tail);
    kConvert(tail, values);
    std::copy(values, values + (n - j), to + j);
}

#if defined(__clang__)
#define PITH_SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define PITH_SHUFFLE(a, b, ...) __builtin_shuffle(a, b, IntVec{__VA_ARGS__})
#endif

// Two rows of squares of kStep × kStep: the second of each pair in the first row changes places with the first in the second.
template <int kStep>
PITH_ALWAYS_INLINE void swap_squares(FloatVec & a, FloatVec & b) {
    const FloatVec x = a;
    const FloatVec y = b;
    if constexpr (kStep == 8) {
        a = PITH_SHUFFLE(x, y, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23);
        b = PITH_SHUFFLE(x, y, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31);
    } else if constexpr (kStep == 4) {
        a = PITH_SHUFFLE(x, y, 0, 1, 2, 3, 16, 17, 18, 19, 8, 9, 10, 11, 24, 25, 26, 27);
        b = PITH_SHUFFLE(x, y, 4, 5, 6, 7, 20, 21, 22, 23, 12, 13, 14, 15, 28, 29, 30, 31);
    } else if constexpr (kStep == 2) {
        a = PITH_SHUFFLE(x, y, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29);
        b = PITH_SHUFFLE(x, y, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31);
    } else {
        a = PITH_SHUFFLE(x, y, 0, 16, 2, 18, 4, 20, 6, 22, 8, 24, 10, 26, 12, 28, 14, 30);
        b = PITH_SHUFFLE(x, y, 1, 17, 3, 19, 5, 21, 7, 23, 9, 25, 11, 27, 13, 29, 15, 31);
    }
}

#undef PITH_SHUFFLE

template <int kStep>
PITH_ALWAYS_INLINE void swap_all_squares(FloatVec rows[kFloatLanes]) {
#pragma GCC unroll 16
    for (int i = 0; i < kFloatLanes; ++i) {
        if ((i & kStep) == 0) { swap_squares<kStep>(rows[i], rows[i + kStep]); }
    }
}

// to[c][e] = from[e][c], 16 × 16.
PITH_ALWAYS_INLINE void transpose_square(const float * from, int64_t from_stride, float * to, int64_t to_stride) {
    FloatVec rows[kFloatLanes];
#pragma GCC unroll 16
    for (int i = 0; i < kFloatLanes; ++i) { load(rows[i], from + i * from_stride); }
    swap_all_squares<8>(rows);
    swap_all_squares<4>(rows);
    swap_all_squares<2>(rows);
    swap_all_squares<1>(rows);
#pragma GCC unroll 16
    for (int i = 0; i < kFloatLanes; ++i) { store(to + i * to_stride, rows[i]); }
}

// Hides what a row may not see of one tile, and takes its maximum.
PITH_ALWAYS_INLINE void hide_and_take_maxima(float * scores, int64_t stride, const int * visible, int first, float * maxima) {
    for (int r = 0; r < kRowGroup; ++r) {
        float * row = scores + r * stride;
        for (int j = std::max(visible[r] - first, 0); j < kTileEntries; ++j) {
            row[j] = -std::numeric_limits<float>::infinity();
        }
        FloatVec best;
        load(best, maxima + r * kFloatLanes);
        for (int i = 0; i < kTileEntries; i += kFloatLanes) {
            FloatVec v;
            load(v, row + i);
            best = v > best ? v : best;
        }
        store(maxima + r * kFloatLanes, best);
    }
}

// Tiles outermost: one stays in the nearest cache while all rows meet it.
template <int kRows, int kVectors>
PITH_ALWAYS_INLINE void score_all(const ScoreBlock & b) {
    std::fill_n(b.maxima, int64_t{b.n_groups} * kRowGroup * kFloatLanes, -std::numeric_limits<float>::infinity());
    for (int t = 0; t < b.n_tiles; ++t) {
        const float * tile = b.tiles + int64_t{t} * b.d * kTileEntries;
        for (int group = 0; group < b.n_groups; ++group) {
            const int row = group * kRowGroup;
            float * scores = b.scores + row * b.stride + int64_t{t} * kTileEntries;
            for (int r = 0; r < kRowGroup; r += kRows) {
                for (int i = 0; i < kTileEntries; i += kVectors * kFloatLanes) {
                    FloatVec products[kRows][kVectors] = {};
                    multiply_block({b.queries + int64_t{row} * b.d + r, kRowGroup}, {tile + i, kTileEntries}, b.d, products);
                    store_block(products, scores + r * b.stride + i, b.stride);
                }
            }
            hide_and_take_maxima(scores, b.stride, b.visible + row, t * kTileEntries, b.maxima + row * kFloatLanes);
        }
    }
}

PITH_CLONES void score_wide(const ScoreBlock & block) {
    score_all<8, 2>(block);
}
PITH_CLONES void score_narrow(const ScoreBlock & block) {
    score_all<4, 1>(block);
}

template <bool kRoots, bool kMore>
PITH_ALWAYS_INLINE RowSums exponentiate_as(float * row, int64_t n, const float * maxima) {
    const float max = *std::max_element(maxima, maxima + kFloatLanes);
    RowSums sums;
    for (int64_t first = 0; first < n; first += kFlush * kFloatLanes) {
        const int64_t end = std::min(n, first + kFlush * kFloatLanes);
        FloatVec sum = {};
        FloatVec squares = {};
        FloatVec weighted = {};
        for (int64_t j = first; j < end; j += kFloatLanes) {
            FloatVec x;
            load(x, row + j);
            x -= max;
            FloatVec power;
            fast_exp2(kRoots ? x * 0.5F : x, power);
            store(row + j, power);
            if constexpr (kRoots) { power *= power; }
            sum += power;
            if constexpr (kMore) {
                squares += power * power;
                // An invisible entry is -infinity · 0.
                weighted += power * (x < -1000.0F ? FloatVec{} : x);
            }
        }
        sums.sum += total(sum);
        if constexpr (kMore) {
            sums.squares += total(squares);
            sums.weighted += total(weighted);
        }
    }
    return sums;
}

PITH_CLONES RowSums exponentiate_sum(float * row, int64_t n, const float * maxima) {
    return exponentiate_as<false, false>(row, n, maxima);
}
PITH_CLONES RowSums exponentiate_more(float * row, int64_t n, const float * maxima) {
    return exponentiate_as<false, true>(row, n, maxima);
}
PITH_CLONES RowSums exponentiate_roots(float * row, int64_t n, const float * maxima) {
    return exponentiate_as<true, true>(row, n, maxima);
}

template <int kPower>
PITH_ALWAYS_INLINE void add_weighted_as(const RowBlock & b, const float * weights, float * out) {
    for (int64_t j = 0; j < b.n; j += 2 * kFloatLanes) {
        FloatVec low;
        FloatVec high;
        load(low, out + j);
        load(high, out + j + kFloatLanes);
        for (int r = 0; r < b.n_rows; ++r) {
            const float * row = b.rows + r * b.stride + j;
            FloatVec x;
            FloatVec y;
            load_raised<kPower>(x, row);
            load_raised<kPower>(y, row + kFloatLanes);
            low += x * weights[r];
            high += y * weights[r];
        }
        store(out + j, low);
        store(out + j + kFloatLanes, high);
    }
}

PITH_CLONES void add_first_powers(const RowBlock & block, const float * weights, float * out) {
    add_weighted_as<1>(block, weights, out);
}
PITH_CLONES void add_second_powers(const RowBlock & block, const float * weights, float * out) {
    add_weighted_as<2>(block, weights, out);
}
PITH_CLONES void add_fourth_powers(const RowBlock & block, const float * weights, float * out) {
    add_weighted_as<4>(block, weights, out);
}

template <int kPower>
PITH_ALWAYS_INLINE void add_group_squares_as(const RowBlock & b, int n_group, const float * weights, float * out) {
    for (int64_t j = 0; j < b.n; j += kFloatLanes) {
        FloatVec sum;
        load(sum, out + j);
        for (int i = 0; i < b.n_rows; ++i) {
            FloatVec mean = {};
            for (int r = i; r < n_group * b.n_rows; r += b.n_rows) {
                FloatVec x;
                load_raised<kPower>(x, b.rows + r * b.stride + j);
                mean += x * weights[r];
            }
            sum += mean * mean;
        }
        store(out + j, sum);
    }
}

PITH_CLONES void add_group_squares_plain(const RowBlock & block, int n_group, const float * weights, float * out) {
    add_group_squares_as<1>(block, n_group, weights, out);
}
PITH_CLONES void add_group_squares_roots(const RowBlock & block, int n_group, const float * weights, float * out) {
    add_group_squares_as<2>(block, n_group, weights, out);
}

}  // namespace

PITH_CLONES void halves_to_floats(const uint16_t * from, int64_t n, float * to) {
    convert_all<convert_halves>(from, n, to);
}

PITH_CLONES void bfloats_to_floats(const uint16_t * from, int64_t n, float * to) {
    convert_all<convert_bfloats>(from, n, to);
}

PITH_CLONES void pack_tile(const float * rows, int n, int d, float * tile) {
    if (n < kTileEntries) { std::fill_n(tile, int64_t{d} * kTileEntries, 0.0F); }
    const int n_square = n / kFloatLanes * kFloatLanes;
    const int d_square = d / kFloatLanes * kFloatLanes;
    for (int e = 0; e < n_square; e += kFloatLanes) {
        for (int c = 0; c < d_square; c += kFloatLanes) {
            transpose_square(rows + int64_t{e} * d + c, d, tile + c * kTileEntries + e, kTileEntries);
        }
    }
    for (int e = 0; e < n; ++e) {
        for (int c = e < n_square ? d_square : 0; c < d; ++c) { tile[c * kTileEntries + e] = rows[int64_t{e} * d + c]; }
    }
}

void score_rows(const ScoreBlock & block) {
    has_wide_registers() ? score_wide(block) : score_narrow(block);
}

RowSums exponentiate(float * row, int64_t n, const float * maxima, RowForm form, bool more) {
    if (form == RowForm::kRoots) { return exponentiate_roots(row, n, maxima); }
    return more ? exponentiate_more(row, n, maxima) : exponentiate_sum(row, n, maxima);
}

void add_weighted(const RowBlock & block, int power, const float * weights, float * out) {
    (power == 1 ? add_first_powers : power == 2 ? add_second_powers : add_fourth_powers)(block, weights, out);
}

void add_group_squares(const RowBlock & block, int n_group, int power, const float * weights, float * out) {
    (power == 1 ? add_group_squares_plain : add_group_squares_roots)(block, n_group, weights, out);
}

PITH_CLONES void scale_row(const float * row, int64_t n, int power, float weight, float * out) {
    for (int64_t j = 0; j < n; ++j) { out[j] = weight * raised(row[j], power); }
}

PITH_CLONES double centred_squares(const float * row, int64_t n, int power, float weight, float mean) {
    double sum = 0;
    int64_t j = 0;
    for (int64_t flush = 0; j + kFloatLanes <= n;) {
        flush = std::min(n - kFloatLanes, j + (kFlush - 1) * kFloatLanes);
        FloatVec part = {};
        for (; j <= flush; j += kFloatLanes) {
            FloatVec x;
            load(x, row + j);
            x = (power == 2 ? x * x : x) * weight - mean;
            part += x * x;
        }
        sum += total(part);
    }
    for (; j < n; ++j) {
        const double x = static_cast<double>(raised(row[j], power) * weight - mean);
        sum += x * x;
    }
    return sum;
}

}  // namespace pith
