// quantised_multiply-inl.h - rows of activations times columns of quantised weights: a panel of columns is unpacked, and all
// rows meet it; few rows meet columns as they lie. Included once per instruction set. Stage: matmul.
#if defined(PITH_QUANTISED_MULTIPLY_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PITH_QUANTISED_MULTIPLY_INL_H_
#undef PITH_QUANTISED_MULTIPLY_INL_H_
#else
#define PITH_QUANTISED_MULTIPLY_INL_H_
#endif

#include <algorithm>
#include <type_traits>

#include "matmul/amx_product.h"
#include "matmul/quantised_groups-inl.h"

HWY_BEFORE_NAMESPACE();
namespace pith::PITH_KERNELS {

// Rows of x in a tile, whose sums with the panel's columns stay in registers.
inline constexpr size_t kTileRows = kManySums ? 6 : 4;
// Rows that meet a panel before it is unpacked anew.
inline constexpr size_t kRowsAtOnce = 512;

// ---- a panel and a tile of rows ---------------------------------------------------------------------------------------------

// What a group's sum begins with: the offset of its weights, taken off.
template <QuantType kType>
HWY_INLINE VI FirstSum(const QuantisedBlock & row, size_t g) {
    const DI di;
    if constexpr (kType == QuantType::kQ6_K) {
        return hn::Set(di, row.offsets[g]);
    } else if constexpr (kType == QuantType::kIQ4_XS && !kHasSign<kType>) {
        return hn::Set(di, row.wide_offsets[g]);
    } else {
        return hn::Zero(di);
    }
}

// sums [kRows][kPanelColumns] += the rows' products with the panel.
template <QuantType kType, size_t kRows>
HWY_INLINE void MultiplyTile(const BlockPanel & panel, const QuantisedBlock * rows, float * sums) {
    using B = Block<kType>;
    const DI di;
    const DF df;
    const DI16 di16;
    VI all[kRows][kPanelVectors];
    PITH_UNROLL
    for (size_t r = 0; r < kRows; ++r) {
        PITH_UNROLL
        for (size_t v = 0; v < kPanelVectors; ++v) { all[r][v] = hn::Zero(di); }
    }
    for (size_t g = 0; g < kPanelSteps / B::kSteps; ++g) {
        VI group[kRows][kPanelVectors];
        PITH_UNROLL
        for (size_t r = 0; r < kRows; ++r) {
            PITH_UNROLL
            for (size_t v = 0; v < kPanelVectors; ++v) { group[r][v] = FirstSum<kType>(rows[r], g); }
        }
        AddSteps<B::kSteps, B::kPairs, kHasSign<kType>>(panel.quants, g * B::kSteps, rows, group);
        PITH_UNROLL
        for (size_t v = 0; v < kPanelVectors; ++v) {
            const VI scale = hn::Load(di, panel.scales[g] + v * kN);
            PITH_UNROLL
            for (size_t r = 0; r < kRows; ++r) { all[r][v] = hn::Add(all[r][v], hn::Mul(group[r][v], scale)); }
        }
    }
    PITH_UNROLL
    for (size_t r = 0; r < kRows; ++r) {
        PITH_UNROLL
        for (size_t v = 0; v < kPanelVectors; ++v) {
            VF x = hn::Mul(hn::ConvertTo(df, all[r][v]), hn::Load(df, panel.d + v * kN));
            if constexpr (B::kMins) {
                VI less = hn::Zero(di);
                PITH_UNROLL
                for (size_t p = 0; p < 4; ++p) {
                    int32_t pair = 0;
                    hwy::CopyBytes<4>(rows[r].sums + 2 * p, &pair);
                    const auto mins = hn::BitCast(di16, hn::Load(di, panel.mins[p] + v * kN));
                    less = hn::Add(less, hn::WidenMulPairwiseAdd(di, mins, hn::BitCast(di16, hn::Set(di, pair))));
                }
                x = hn::NegMulAdd(hn::ConvertTo(df, less), hn::Load(df, panel.dmin + v * kN), x);
            }
            float * to = sums + r * kPanelColumns + v * kN;
            hn::Store(hn::MulAdd(x, hn::Set(df, rows[r].scale), hn::Load(df, to)), df, to);
        }
    }
}

// The same for n rows.
template <QuantType kType, class AnyPanel, class Row>
HWY_INLINE void MultiplyByVectors(const AnyPanel & panel, const Row * rows, size_t n, float * sums) {
    const size_t n_tiles = (n + kTileRows - 1) / kTileRows;
    for (size_t t = 0; t < n_tiles; ++t) {
        const size_t first = n * t / n_tiles;
        WithCount<kTileRows>(n * (t + 1) / n_tiles - first, [&](auto count) HWY_ATTR {
            MultiplyTile<kType, decltype(count)::value>(panel, rows + first, sums + first * kPanelColumns);
        });
    }
}

// ---- the matrix unit --------------------------------------------------------------------------------------------------------

#if HWY_TARGET == HWY_AVX3_DL
static_assert(kPanelColumns == kAmxColumns);

// Weights times their groups' scales, in two planes of bytes.
template <QuantType kType>
HWY_NOINLINE void SpreadPanel(const BlockPanel & panel, AmxPanel & to) {
    using B = Block<kType>;
    const DI di;
    const DI16 di16;
    const auto low_bytes = hn::Set(di16, int16_t{255});
    for (size_t g = 0; g < kPanelSteps / B::kSteps; ++g) {
        for (size_t v = 0; v < kPanelVectors; ++v) {
            const VI scale32 = hn::Load(di, panel.scales[g] + v * kN);
            const auto scale = hn::BitCast(di16, hn::Or(hn::And(scale32, hn::Set(di, 0xffff)), hn::ShiftLeft<16>(scale32)));
            for (size_t s = g * B::kSteps; s < (g + 1) * B::kSteps; ++s) {
                const auto quants = hn::BitCast(di16, hn::Load(di, reinterpret_cast<const int32_t *>(panel.quants[s][v * kN])));
                auto even = hn::And(quants, low_bytes);
                auto odd = hn::ShiftRight<8>(quants);  // below 64: no sign
                if constexpr (!B::kMins) {
                    even = hn::Sub(even, hn::Set(di16, int16_t{32}));
                    odd = hn::Sub(odd, hn::Set(di16, int16_t{32}));
                }
                even = hn::Mul(even, scale);
                odd = hn::Mul(odd, scale);
                const auto low = hn::Or(hn::And(even, low_bytes), hn::ShiftLeft<8>(odd));
                const auto high = hn::Or(hn::And(hn::ShiftRight<8>(even), low_bytes), hn::AndNot(low_bytes, odd));
                hn::Store(hn::BitCast(di, low), di, reinterpret_cast<int32_t *>(to.low[s][v * kN]));
                hn::Store(hn::BitCast(di, high), di, reinterpret_cast<int32_t *>(to.high[s][v * kN]));
            }
        }
    }
}
template <QuantType kType>
HWY_INLINE void MultiplyByMatrix(const BlockPanel & panel, const QuantisedBlock * rows, size_t n, float * sums) {
    AmxPanel planes;
    SpreadPanel<kType>(panel, planes);
    multiply_amx(planes, {panel.d, panel.dmin, Block<kType>::kMins ? panel.mins[0] : nullptr}, rows, n, sums);
}
#endif

// ---- columns ----------------------------------------------------------------------------------------------------------------

template <QuantType kType>
HWY_INLINE auto RowsOf(const QuantisedProduct & p) {
    if constexpr (has_groups(kType)) {
        return p.groups;
    } else {
        return p.x;
    }
}

// Columns [first, first + n_columns) for rows [row, row + n) of out; at most kPanelColumns and kRowsAtOnce of them.
template <QuantType kType>
HWY_INLINE void MultiplyColumns(const QuantisedProduct & p, size_t first, size_t n_columns, size_t row, size_t n,
                                const NextColumns & next, [[maybe_unused]] bool by_matrix) {
    constexpr bool kGroups = has_groups(kType);
    constexpr size_t kBytes = Block<kType>::kBytes * (kGroups ? kBlockGroups : 1);
    alignas(64) float sums[kRowsAtOnce * kPanelColumns];
    std::conditional_t<kGroups, GroupPanel, BlockPanel> panel;
    std::fill_n(sums, n * kPanelColumns, 0.0F);
    const uint8_t * columns[kPanelColumns];  // behind the last: the last again
    for (size_t c = 0; c < kPanelColumns; ++c) {
        columns[c] = p.weights + (first + HWY_MIN(c, n_columns - 1)) * p.weight_stride;
    }
    const size_t n_blocks = (p.n_in + kQuantBlock - 1) / kQuantBlock;
    for (size_t b = 0; b < n_blocks; ++b) {
        if constexpr (kGroups) { panel.n_groups = HWY_MIN(kBlockGroups, p.n_in / kGroup - b * kBlockGroups); }
        for (size_t v = 0; v < kPanelVectors; ++v) {
            ColumnPlaces places;
            for (size_t c = 0; c < kN; ++c) { places.set(c, columns[v * kN + c] + b * kBytes); }
            UnpackColumns<kType>(places, v * kN, panel);
        }
        next.fetch(b, n_blocks);
        const auto * rows = RowsOf<kType>(p) + b * p.block_stride + row;
#if HWY_TARGET == HWY_AVX3_DL
        if constexpr (has_matrix_product(kType)) {
            if (by_matrix) {
                MultiplyByMatrix<kType>(panel, rows, n, sums);
                continue;
            }
        }
#endif
        MultiplyByVectors<kType>(panel, rows, n, sums);
    }
    for (size_t r = 0; r < n; ++r) { std::copy_n(sums + r * kPanelColumns, n_columns, p.out_row(row + r) + first); }
}

// The columns behind [c, c + n) of those before `end`.
HWY_INLINE NextColumns NextAfter(const QuantisedProduct & p, size_t c, size_t end, size_t n) {
    const size_t first = HWY_MIN(c + n, end);
    return {p, first, HWY_MIN(n, end - first)};
}

#if HWY_TARGET <= HWY_AVX2
inline constexpr size_t kFewRows = 4;  // that meet columns as they lie

// Columns [first, end) for at most kFewRows rows.
template <QuantType kType>
HWY_INLINE void MultiplyAsTheyLie(const QuantisedProduct & p, size_t first, size_t end) {
    WithCount<kFewRows>(p.n, [&](auto count) HWY_ATTR {
        constexpr size_t kRows = decltype(count)::value;
        for (size_t c = first; c < end; c += kColumnsAtOnce) {
            if constexpr (has_groups(kType)) {
                MultiplyFewGroupRows<kType, kRows>(p, c, HWY_MIN(kColumnsAtOnce, end - c));
            } else {
                MultiplyFewRows<kType, kRows>(p, c, HWY_MIN(kColumnsAtOnce, end - c));
            }
        }
    });
}
#endif

template <QuantType kType>
HWY_NOINLINE void MultiplyType(const QuantisedProduct & p, size_t first, size_t end, ProductUnit unit) {
#if HWY_TARGET <= HWY_AVX2
    if (unit == ProductUnit::kBest && p.n <= kFewRows) { return MultiplyAsTheyLie<kType>(p, first, end); }
#endif
    for (size_t c = first; c < end; c += kPanelColumns) {
        for (size_t row = 0; row < p.n; row += kRowsAtOnce) {
            MultiplyColumns<kType>(p, c, HWY_MIN(kPanelColumns, end - c), row, HWY_MIN(kRowsAtOnce, p.n - row),
                                   NextAfter(p, c, end, kPanelColumns), unit == ProductUnit::kMatrix);
        }
    }
}

// Columns [first, end).
void MultiplyQuantised(const QuantisedProduct & p, size_t first, size_t end, ProductUnit unit) {
    switch (p.type) {
        case QuantType::kQ4_K:
            return MultiplyType<QuantType::kQ4_K>(p, first, end, unit);
        case QuantType::kQ5_K:
            return MultiplyType<QuantType::kQ5_K>(p, first, end, unit);
        case QuantType::kQ6_K:
            return MultiplyType<QuantType::kQ6_K>(p, first, end, unit);
        case QuantType::kIQ4_XS:
            return MultiplyType<QuantType::kIQ4_XS>(p, first, end, unit);
        case QuantType::kQ8_0:
            return MultiplyType<QuantType::kQ8_0>(p, first, end, unit);
        case QuantType::kQ4_0:
            return MultiplyType<QuantType::kQ4_0>(p, first, end, unit);
        case QuantType::kQ4_1:
            return MultiplyType<QuantType::kQ4_1>(p, first, end, unit);
        case QuantType::kIQ4_NL:
            return MultiplyType<QuantType::kIQ4_NL>(p, first, end, unit);
        case QuantType::kMXFP4:
            return MultiplyType<QuantType::kMXFP4>(p, first, end, unit);
    }
}

}  // namespace pith::PITH_KERNELS
HWY_AFTER_NAMESPACE();
#endif
