// cpu_entries-inl.h - one pass over stored rows for every function of cpu_entries.h. Included once per instruction set. Stage:
// attention → evidence.
#if defined(PITH_CPU_ENTRIES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PITH_CPU_ENTRIES_INL_H_
#undef PITH_CPU_ENTRIES_INL_H_
#else
#define PITH_CPU_ENTRIES_INL_H_
#endif

#include "attention/cpu/cpu_rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace pith::HWY_NAMESPACE {

template <class Load>
HWY_INLINE float NormOf(const uint8_t * row, size_t dim) {
    auto squares = hn::Zero(DF());
    ForEachVector<Load>(row, dim, [&](size_t, VF x) HWY_ATTR { squares = hn::MulAdd(x, x, squares); });
    return std::sqrt(hn::ReduceSum(DF(), squares));
}

void EntryNorms(const EntryRows & entries, bool magnitudes, float * out) {
    const auto dim = static_cast<size_t>(entries.dim);
    ForEachRow(entries, [&](auto load, const uint8_t * row, int j) HWY_ATTR {
        using Load = decltype(load);
        if (!magnitudes) {
            out[j] = NormOf<Load>(row, dim);
            return;
        }
        auto sum = hn::Zero(DF());
        ForEachVector<Load>(row, dim, [&](size_t, VF x) HWY_ATTR { sum = hn::Add(sum, hn::Abs(x)); });
        out[j] = hn::ReduceSum(DF(), sum);
    });
}

void AddUnitEntries(const EntryRows & entries, double * sum) {
    const auto dim = static_cast<size_t>(entries.dim);
    ForEachRow(entries, [&](auto load, const uint8_t * row, int) HWY_ATTR {
        using Load = decltype(load);
        const float norm = NormOf<Load>(row, dim);
        const auto scale = hn::Set(DF(), norm > 0 ? 1.0F / norm : 0.0F);
        ForEachVector<Load>(row, dim, [&](size_t c, VF x) HWY_ATTR {
            HWY_ALIGN float unit[kN];
            hn::Store(hn::Mul(x, scale), DF(), unit);
            for (size_t i = 0; i < kN; ++i) { sum[c + i] += double{unit[i]}; }
        });
    });
}

void ProjectUnitEntries(const EntryRows & entries, const float * direction, float * out) {
    const auto dim = static_cast<size_t>(entries.dim);
    ForEachRow(entries, [&](auto load, const uint8_t * row, int j) HWY_ATTR {
        using Load = decltype(load);
        auto dot = hn::Zero(DF());
        auto squares = hn::Zero(DF());
        ForEachVector<Load>(row, dim, [&](size_t c, VF x) HWY_ATTR {
            dot = hn::MulAdd(x, hn::LoadU(DF(), direction + c), dot);
            squares = hn::MulAdd(x, x, squares);
        });
        const float norm = std::sqrt(hn::ReduceSum(DF(), squares));
        out[j] = norm > 0 ? hn::ReduceSum(DF(), dot) / norm : 0.0F;
    });
}

// ---- products ----

inline constexpr size_t kPair = 2 * kN;  // columns in registers at a time
inline constexpr size_t kBlockRows = 64;
inline constexpr size_t kBlockFloats = kBlockRows * 128;
static_assert(PackedColumns::kColumns % kPair == 0 && kSteps % 4 == 0);

// sums [n] += the reduction over a panel's columns. x [n][stride], of which form [n][stride] are those at the columns.
HWY_INLINE void ReducePanel(const float * HWY_RESTRICT x, const float * form, size_t stride, size_t n, size_t dim,
                            const float * HWY_RESTRICT panel, const float * HWY_RESTRICT start, Reduction reduction,
                            float * HWY_RESTRICT sums) {
    const DF df;
    for (size_t j = 0; j < n; j += kSteps) {
        const float * rows[kSteps];
        size_t row_of[kSteps];
        VF totals[kSteps];
        for (size_t e = 0; e < kSteps; ++e) {
            row_of[e] = HWY_MIN(j + e, n - 1);
            rows[e] = x + row_of[e] * stride;
            totals[e] = hn::Zero(df);
        }
        for (size_t first = 0; first < PackedColumns::kColumns; first += kPair) {
            VF y[kSteps][2];
            for (size_t e = 0; e < kSteps; ++e) {
                y[e][0] = hn::LoadU(df, start + first);
                y[e][1] = hn::LoadU(df, start + first + kN);
            }
            for (size_t c = 0; c < dim; ++c) {
                const auto w0 = hn::LoadU(df, panel + c * PackedColumns::kColumns + first);
                const auto w1 = hn::LoadU(df, panel + c * PackedColumns::kColumns + first + kN);
                for (size_t e = 0; e < kSteps; ++e) {
                    const auto element = hn::Set(df, rows[e][c]);
                    y[e][0] = hn::MulAdd(element, w0, y[e][0]);
                    y[e][1] = hn::MulAdd(element, w1, y[e][1]);
                }
            }
            for (size_t e = 0; e < kSteps; ++e) {
                for (size_t i = 0; i < 2; ++i) {
                    if (reduction == Reduction::kMagnitudes) {
                        totals[e] = hn::Add(totals[e], hn::Abs(y[e][i]));
                    } else {
                        const auto other =
                            reduction == Reduction::kRoot ? y[e][i] : hn::LoadU(df, form + row_of[e] * stride + first + i * kN);
                        totals[e] = hn::MulAdd(y[e][i], other, totals[e]);
                    }
                }
            }
        }
        for (size_t e = 0; e < kSteps; e += 4) {
            const hn::FixedTag<float, 4> d4;
            const auto four = SumsOf4(totals[e], totals[e + 1], totals[e + 2], totals[e + 3]);
            hn::StoreU(hn::Add(hn::LoadU(d4, sums + j + e), four), d4, sums + j + e);
        }
    }
}

void ReduceProducts(const EntryRows & entries, const PackedColumns & columns, Reduction reduction, float * out) {
    constexpr size_t kColumns = PackedColumns::kColumns;
    const auto dim = static_cast<size_t>(entries.dim);
    const size_t stride = (dim + kColumns - 1) / kColumns * kColumns;
    // As many rows as fit, as floats with zeros behind them: a form reads whole panels.
    HWY_ALIGN float block[kBlockFloats];
    const size_t n_block = HWY_MIN(kBlockRows, kBlockFloats / stride);
    for (size_t begin = 0; begin < static_cast<size_t>(entries.n); begin += n_block) {
        const size_t n = HWY_MIN(n_block, static_cast<size_t>(entries.n) - begin);
        const auto * from = static_cast<const uint8_t *>(entries.rows) + begin * entries.stride;
        WithLoader(entries.format, [&](auto load) HWY_ATTR {
            for (size_t j = 0; j < n; ++j) {
                float * to = block + j * stride;
                ForEachVector<decltype(load)>(from + j * entries.stride, dim,
                                              [&](size_t c, VF x) HWY_ATTR { hn::StoreU(x, DF(), to + c); });
                std::fill(to + dim, to + stride, 0.0F);
            }
        });
        float sums[kBlockRows + kSteps] = {};
        for (int p = 0; p < columns.n_panels(); ++p) {
            ReducePanel(block, block + static_cast<size_t>(p) * kColumns, stride, n, dim, columns.panel(p), columns.start(p),
                        reduction, sums);
        }
        for (size_t j = 0; j < n; ++j) { out[begin + j] = reduction == Reduction::kRoot ? std::sqrt(sums[j]) : sums[j]; }
    }
}

// ---- moments ----

// squares[r][c] += Σ_i x[i][r] · x[i][c], x [n][width], for all c at or right of a block that holds r.
HWY_INLINE void AddSquares(const float * HWY_RESTRICT x, size_t width, size_t n, size_t d, float * HWY_RESTRICT squares) {
    const DF df;
    for (size_t column = 0; column < d; column += kPair) {
        for (size_t row = 0; row < HWY_MIN(column + kPair, d); row += kSteps) {
            VF sums[kSteps][2];
            for (size_t r = 0; r < kSteps; ++r) { sums[r][0] = sums[r][1] = hn::Zero(df); }
            for (size_t i = 0; i < n; ++i) {
                const float * at = x + i * width;
                const auto right0 = hn::LoadU(df, at + column);
                const auto right1 = hn::LoadU(df, at + column + kN);
                for (size_t r = 0; r < kSteps; ++r) {
                    const auto left = hn::Set(df, at[row + r]);
                    sums[r][0] = hn::MulAdd(left, right0, sums[r][0]);
                    sums[r][1] = hn::MulAdd(left, right1, sums[r][1]);
                }
            }
            HWY_ALIGN float block[kPair];
            for (size_t r = 0; r < HWY_MIN(kSteps, d - row); ++r) {
                hn::Store(sums[r][0], df, block);
                hn::Store(sums[r][1], df, block + kN);
                float * to = squares + (row + r) * d + column;
                for (size_t c = 0; c < HWY_MIN(kPair, d - column); ++c) { to[c] += block[c]; }
            }
        }
    }
}

void Moments(const float * rows, size_t stride, size_t n, size_t d, float * scratch, float * mean, float * squares) {
    const size_t width = (d + PackedColumns::kColumns - 1) / PackedColumns::kColumns * PackedColumns::kColumns;
    constexpr size_t kTogether = 8;
    for (size_t first = 0; first < d; first += kTogether) {
        const size_t n_columns = HWY_MIN(kTogether, d - first);
        double sums[kTogether] = {};
        for (size_t i = 0; i < n; ++i) {
            for (size_t c = 0; c < n_columns; ++c) { sums[c] += double{rows[i * stride + first + c]}; }
        }
        for (size_t c = 0; c < n_columns; ++c) { mean[first + c] = static_cast<float>(sums[c] / static_cast<double>(n)); }
    }
    std::fill(scratch, scratch + kMomentRows * width, 0.0F);
    std::fill(squares, squares + d * d, 0.0F);
    for (size_t first = 0; first < n; first += kMomentRows) {
        const size_t n_block = HWY_MIN(size_t{kMomentRows}, n - first);
        for (size_t i = 0; i < n_block; ++i) {
            const float * row = rows + (first + i) * stride;
            for (size_t c = 0; c < d; ++c) { scratch[i * width + c] = row[c] - mean[c]; }
        }
        AddSquares(scratch, width, n_block, d, squares);
    }
    // The blocks above cover the diagonal and what is right of it.
    for (size_t r = 0; r < d; ++r) {
        for (size_t c = 0; c < r; ++c) { squares[r * d + c] = squares[c * d + r]; }
    }
}

}  // namespace pith::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
