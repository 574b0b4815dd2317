// moment_kernel.cpp - blocked rank updates and quadratic forms.
#include "attention/moment_kernel.h"

#include <algorithm>

#include "attention/observe_kernel.h"
#include "attention/register_block.h"
#include "core/multiversion.h"

namespace pith {
namespace {

#pragma GCC diagnostic ignored "-Wpsabi"  // to the end of the file, where GCC would warn

// squares[r][c] += Σ_i x[i][r] · x[i][c], x [n][width], for all c at or right of a block that holds r.
template <int kRows, int kVectors>
PITH_ALWAYS_INLINE void add_squares(const float * x, int64_t width, int64_t n, int d, float * squares) {
    constexpr int kWidth = kVectors * kFloatLanes;
    for (int column = 0; column < d; column += kWidth) {
        const int n_columns = std::min(kWidth, d - column);
        for (int row = 0; row < std::min(column + kWidth, d); row += kRows) {
            FloatVec products[kRows][kVectors] = {};
            multiply_block({x + row, width}, {x + column, width}, n, products);
            float sums[kRows * kWidth];
            store_block(products, sums, kWidth);
            for (int r = 0; r < std::min(kRows, d - row); ++r) {
                float * to = squares + int64_t{row + r} * d + column;
                for (int c = 0; c < n_columns; ++c) { to[c] += sums[r * kWidth + c]; }
            }
        }
    }
}

PITH_CLONES void add_squares_wide(const float * x, int64_t width, int64_t n, int d, float * squares) {
    add_squares<8, 2>(x, width, n, d, squares);
}
PITH_CLONES void add_squares_narrow(const float * x, int64_t width, int64_t n, int d, float * squares) {
    add_squares<4, 1>(x, width, n, d, squares);
}

template <int kRows, int kVectors>
PITH_ALWAYS_INLINE void evaluate(const float * packed, const float * tile, int d, float * out) {
    const float * linear = packed + (packed_form_floats(d) - (d + kRowGroup - 1) / kRowGroup * kRowGroup);
    for (int first = 0; first < kTileEntries; first += kVectors * kFloatLanes) {
        FloatVec sums[kVectors] = {};
        for (int row = 0; row < d; row += kRows) {
            FloatVec products[kRows][kVectors];
#pragma GCC unroll 8
            for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
                for (int v = 0; v < kVectors; ++v) { products[r][v] = FloatVec{} + linear[row + r]; }
            }
            const float * form = packed + int64_t{row / kRowGroup} * kRowGroup * d + row % kRowGroup;
            multiply_block({form, kRowGroup}, {tile + first, kTileEntries}, d, products);
#pragma GCC unroll 8
            for (int r = 0; r < kRows; ++r) {
                if (row + r >= d) { continue; }
#pragma GCC unroll 4
                for (int v = 0; v < kVectors; ++v) {
                    FloatVec k;
                    load(k, tile + (row + r) * kTileEntries + first + v * kFloatLanes);
                    sums[v] += products[r][v] * k;
                }
            }
        }
        for (int v = 0; v < kVectors; ++v) { store(out + first + v * kFloatLanes, sums[v]); }
    }
}

PITH_CLONES void evaluate_wide(const float * packed, const float * tile, int d, float * out) {
    evaluate<8, 2>(packed, tile, d, out);
}
PITH_CLONES void evaluate_narrow(const float * packed, const float * tile, int d, float * out) {
    evaluate<4, 1>(packed, tile, d, out);
}

}  // namespace

PITH_CLONES void moments_of(const float * rows, int64_t stride, int64_t n, int d, float * scratch, float * mean,
                            float * squares) {
    const int64_t width = padded_columns(d);
    for (int first = 0; first < d; first += kDoubleLanes) {
        const int n_columns = std::min(kDoubleLanes, d - first);
        double sums[kDoubleLanes] = {};
        for (int64_t i = 0; i < n; ++i) {
            for (int c = 0; c < n_columns; ++c) { sums[c] += static_cast<double>(rows[i * stride + first + c]); }
        }
        for (int c = 0; c < n_columns; ++c) { mean[first + c] = static_cast<float>(sums[c] / static_cast<double>(n)); }
    }
    std::fill_n(scratch, kMomentRows * width, 0.0F);
    std::fill_n(squares, int64_t{d} * d, 0.0F);
    for (int64_t first = 0; first < n; first += kMomentRows) {
        const int64_t n_block = std::min<int64_t>(kMomentRows, n - first);
        for (int64_t i = 0; i < n_block; ++i) {
            const float * row = rows + (first + i) * stride;
            for (int c = 0; c < d; ++c) { scratch[i * width + c] = row[c] - mean[c]; }
        }
        (has_wide_registers() ? add_squares_wide : add_squares_narrow)(scratch, width, n_block, d, squares);
    }
    // The blocks above cover the diagonal and what is right of it.
    for (int r = 0; r < d; ++r) {
        for (int c = 0; c < r; ++c) { squares[int64_t{r} * d + c] = squares[int64_t{c} * d + r]; }
    }
}

int64_t packed_form_floats(int d) {
    const int64_t rows = (int64_t{d} + kRowGroup - 1) / kRowGroup * kRowGroup;
    return rows * d + rows;
}

void pack_form(const float * quadratic, const float * linear, int d, float * packed) {
    std::fill_n(packed, packed_form_floats(d), 0.0F);
    float * to_linear = packed + packed_form_floats(d) - (d + kRowGroup - 1) / kRowGroup * kRowGroup;
    for (int r = 0; r < d; ++r) {
        float * to = packed + int64_t{r / kRowGroup} * kRowGroup * d + r % kRowGroup;
        for (int c = 0; c < d; ++c) { to[c * kRowGroup] = quadratic[int64_t{r} * d + c]; }
        to_linear[r] = linear[r];
    }
}

void evaluate_form(const float * packed, const float * tile, int d, float * out) {
    (has_wide_registers() ? evaluate_wide : evaluate_narrow)(packed, tile, d, out);
}

}  // namespace pith
