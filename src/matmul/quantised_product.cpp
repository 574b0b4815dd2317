// quantised_product.cpp - the kernel, compiled once per instruction set, and what each thread computes of it.
#include "matmul/quantised_product.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <utility>

#include "device/amx.h"
#include "device/cpu_targets.h"
#include "matmul/amx_product.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "matmul/quantised_product.cpp"
#include "hwy/foreach_target.h"
// The order matters: foreach_target.h first.
#include "hwy/highway.h"
#include "matmul/quantised_groups-inl.h"

HWY_BEFORE_NAMESPACE();
namespace pith::HWY_NAMESPACE {

// Rows of x in a tile, whose sums with the panel's columns stay in registers.
inline constexpr size_t kTileRows = kManyRegisters ? 6 : 4;
template <QuantType kType>
inline constexpr bool kInGroups = kType == QuantType::kQ8_0 || kType == QuantType::kQ4_0 || kType == QuantType::kQ4_1;
// Rows that meet a panel before it is unpacked anew.
inline constexpr size_t kRowsAtOnce = 512;

// ---- rows -------------------------------------------------------------------------------------------------------------------

void QuantiseBlock(const float * x, QuantisedBlock & to) {
    const DF df;
    const hn::Rebind<int8_t, DF> d8;
    VF most = hn::Zero(df);
    VF wrong = hn::Zero(df);  // stays 0 unless an element is infinite or not a number: then the row's products are not numbers
    for (size_t i = 0; i < kQuantBlock; i += kN) {
        const VF v = hn::LoadU(df, x + i);
        most = hn::Max(most, hn::Abs(v));
        wrong = hn::Add(wrong, hn::Sub(v, v));
    }
    const float largest = hn::ReduceMax(df, most);
    const VF by = hn::Set(df, largest > 0 ? 127.0F / largest : 0.0F);
    for (size_t i = 0; i < kQuantBlock; i += kN) {
        hn::StoreU(hn::DemoteTo(d8, hn::NearestInt(hn::Mul(hn::LoadU(df, x + i), by))), d8, to.quants + i);
    }
    for (size_t g = 0; g < 16; ++g) {
        int32_t sum = 0;
        for (size_t i = 0; i < 16; ++i) { sum += to.quants[16 * g + i]; }
        to.offsets[g] = sum;
    }
    for (size_t g = 0; g < 8; ++g) { to.sums[g] = static_cast<int16_t>(to.offsets[2 * g] + to.offsets[2 * g + 1]); }
    for (int32_t & offset : to.offsets) { offset *= -32; }
    to.scale = largest / 127.0F + hn::ReduceSum(df, wrong);
}

// A group of 32.
void QuantiseGroup(const float * x, size_t g, QuantisedGroups & to) {
    const DF df;
    const hn::Rebind<int8_t, DF> d8;
    VF most = hn::Zero(df);
    VF wrong = hn::Zero(df);
    for (size_t i = 0; i < kGroup; i += kN) {
        const VF v = hn::LoadU(df, x + i);
        most = hn::Max(most, hn::Abs(v));
        wrong = hn::Add(wrong, hn::Sub(v, v));
    }
    const float largest = hn::ReduceMax(df, most);
    const VF by = hn::Set(df, largest > 0 ? 127.0F / largest : 0.0F);
    int8_t * quants = to.quants + g * kGroup;
    for (size_t i = 0; i < kGroup; i += kN) {
        hn::StoreU(hn::DemoteTo(d8, hn::NearestInt(hn::Mul(hn::LoadU(df, x + i), by))), d8, quants + i);
    }
    int32_t sum = 0;
    for (size_t i = 0; i < kGroup; ++i) { sum += quants[i]; }
    to.sums[g] = sum;
    to.scales[g] = largest / 127.0F + hn::ReduceSum(df, wrong);
    to.scaled_sums[g] = to.scales[g] * static_cast<float>(sum);
}

void QuantiseRows(const RowsToQuantise & rows, size_t first, size_t end) {
    const size_t stride = padded_rows(rows.n);
    for (size_t r = first; r < end; ++r) {
        if (rows.groups != nullptr) {
            for (size_t g = 0; g < rows.n_in / kGroup; ++g) {
                QuantiseGroup(rows.x + r * rows.stride + g * kGroup, g % kBlockGroups,
                              rows.groups[g / kBlockGroups * stride + r]);
            }
            continue;
        }
        for (size_t b = 0; b < rows.n_in / kQuantBlock; ++b) {
            QuantiseBlock(rows.x + r * rows.stride + b * kQuantBlock, rows.blocks[b * stride + r]);
        }
    }
}

// ---- a panel and a tile of rows ---------------------------------------------------------------------------------------------

// sums [kRows][kPanelColumns] += the rows' products with the panel.
template <QuantType kType, size_t kRows>
HWY_INLINE void MultiplyTile(const Panel & panel, const QuantisedBlock * rows, float * sums) {
    using B = Block<kType>;
    const DI di;
    const DF df;
    const DU8 du8;
    const DI16 di16;
    const hn::Repartition<int8_t, DI> di8;
    VI all[kRows][kPanelVectors];
    PITH_UNROLL
    for (size_t r = 0; r < kRows; ++r) {
        PITH_UNROLL
        for (size_t v = 0; v < kPanelVectors; ++v) { all[r][v] = hn::Zero(di); }
    }
    const auto quad = [&](size_t r, size_t step) HWY_ATTR {
        int32_t four = 0;
        hwy::CopyBytes<4>(rows[r].quants + 4 * step, &four);
        return hn::BitCast(di8, hn::Set(di, four));
    };
    const auto weights = [&](size_t step, size_t v) HWY_ATTR {
        return hn::BitCast(du8, hn::Load(di, reinterpret_cast<const int32_t *>(panel.quants[step][v * kN])));
    };
    for (size_t g = 0; g < kPanelSteps / B::kSteps; ++g) {
        VI group[kRows][kPanelVectors];
        PITH_UNROLL
        for (size_t r = 0; r < kRows; ++r) {
            PITH_UNROLL
            for (size_t v = 0; v < kPanelVectors; ++v) {
                group[r][v] = B::kMins ? hn::Zero(di) : hn::Set(di, rows[r].offsets[g]);
            }
        }
        if constexpr (kHasByteDots) {
            PITH_UNROLL
            for (size_t s = 0; s < B::kSteps; ++s) {
                const size_t step = g * B::kSteps + s;
                hn::Vec<DU8> w[kPanelVectors];
                PITH_UNROLL
                for (size_t v = 0; v < kPanelVectors; ++v) { w[v] = weights(step, v); }
                PITH_UNROLL
                for (size_t r = 0; r < kRows; ++r) {
                    auto x = quad(r, step);
                    PITH_ONE_LOAD(x);
                    PITH_UNROLL
                    for (size_t v = 0; v < kPanelVectors; ++v) {
                        group[r][v] = hn::SumOfMulQuadAccumulate(di, w[v], x, group[r][v]);
                    }
                }
            }
        } else {
            for (size_t s = 0; s < B::kSteps; s += B::kPairs) {
                hn::Vec<DI16> pairs[kRows][kPanelVectors];
                PITH_UNROLL
                for (size_t p = 0; p < B::kPairs; ++p) {
                    const size_t step = g * B::kSteps + s + p;
                    PITH_UNROLL
                    for (size_t v = 0; v < kPanelVectors; ++v) {
                        const auto w = weights(step, v);
                        PITH_UNROLL
                        for (size_t r = 0; r < kRows; ++r) {
                            const auto product = hn::SatWidenMulPairwiseAdd(di16, w, quad(r, step));
                            pairs[r][v] = p == 0 ? product : hn::Add(pairs[r][v], product);
                        }
                    }
                }
                PITH_UNROLL
                for (size_t r = 0; r < kRows; ++r) {
                    PITH_UNROLL
                    for (size_t v = 0; v < kPanelVectors; ++v) {
                        group[r][v] = hn::Add(group[r][v], hn::WidenMulPairwiseAdd(di, pairs[r][v], hn::Set(di16, int16_t{1})));
                    }
                }
            }
        }
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

template <QuantType kType, size_t kRows = kTileRows>
HWY_INLINE void MultiplyTileOf(size_t n, const Panel & panel, const QuantisedBlock * rows, float * sums) {
    if constexpr (kRows > 1) {
        if (n < kRows) { return MultiplyTileOf<kType, kRows - 1>(n, panel, rows, sums); }
    }
    MultiplyTile<kType, kRows>(panel, rows, sums);
}

template <QuantType kType>
HWY_INLINE void MultiplyByVectors(const Panel & panel, const QuantisedBlock * rows, size_t n, float * sums) {
    const size_t n_tiles = (n + kTileRows - 1) / kTileRows;
    for (size_t t = 0; t < n_tiles; ++t) {
        const size_t first = n * t / n_tiles;
        const size_t n_here = n * (t + 1) / n_tiles - first;
        MultiplyTileOf<kType>(n_here, panel, rows + first, sums + first * kPanelColumns);
    }
}

// ---- the matrix unit --------------------------------------------------------------------------------------------------------

#if HWY_TARGET == HWY_AVX3_DL
inline constexpr bool kMayHaveMatrix = true;
static_assert(kPanelColumns == kAmxColumns);

// Weights times their groups' scales, in two planes of bytes.
template <QuantType kType>
HWY_NOINLINE void SpreadPanel(const Panel & panel, AmxPanel & to) {
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
#else
inline constexpr bool kMayHaveMatrix = false;
#endif

// ---- columns ----------------------------------------------------------------------------------------------------------------

// Columns [first, first + n_columns) for rows [row, row + n) of out; at most kPanelColumns and kRowsAtOnce of them.
template <QuantType kType>
HWY_INLINE void MultiplyColumns(const QuantisedProduct & p, size_t first, size_t n_columns, size_t row, size_t n,
                                const NextColumns & next, bool by_matrix) {
    constexpr size_t kBytes = Block<kType>::kBytes;
    alignas(64) float sums[kRowsAtOnce * kPanelColumns];
    Panel panel;
    std::fill_n(sums, n * kPanelColumns, 0.0F);
    const uint8_t * columns[kPanelColumns];  // behind the last: the last again
    for (size_t c = 0; c < kPanelColumns; ++c) {
        columns[c] = p.weights + (first + HWY_MIN(c, n_columns - 1)) * p.weight_stride;
    }
    const size_t n_blocks = p.n_in / kQuantBlock;
    const size_t row_stride = padded_rows(p.n);
    for (size_t b = 0; b < n_blocks; ++b) {
        for (size_t v = 0; v < kPanelVectors; ++v) {
            ColumnPlaces places;
            for (size_t c = 0; c < kN; ++c) { places.set(c, columns[v * kN + c] + b * kBytes); }
            UnpackColumns<kType>(places, v * kN, panel);
        }
        next.fetch(b, n_blocks);
        const QuantisedBlock * rows = p.x + b * row_stride + row;
        if constexpr (kMayHaveMatrix) {
            if (by_matrix) {
#if HWY_TARGET == HWY_AVX3_DL
                AmxPanel planes;
                SpreadPanel<kType>(panel, planes);
                const AmxScales scales = {panel.d, panel.dmin, Block<kType>::kMins ? panel.mins[0] : nullptr};
                multiply_amx(planes, scales, rows, n, sums);
#endif
                continue;
            }
        }
        MultiplyByVectors<kType>(panel, rows, n, sums);
    }
    for (size_t r = 0; r < n; ++r) {
        std::copy_n(sums + r * kPanelColumns, n_columns, p.out + (row + r) * p.out_stride + first);
    }
}

template <QuantType kType, size_t kRows = kTileRows>
HWY_INLINE void MultiplyGroupTileOf(size_t n, const GroupPanel & panel, size_t n_groups, const QuantisedGroups * rows,
                                    float * sums) {
    if constexpr (kRows > 1) {
        if (n < kRows) { return MultiplyGroupTileOf<kType, kRows - 1>(n, panel, n_groups, rows, sums); }
    }
    MultiplyGroupTile<kType, kRows>(panel, n_groups, rows, sums);
}

// The same for weights in groups of 32.
template <QuantType kType>
HWY_INLINE void MultiplyGroupColumns(const QuantisedProduct & p, size_t first, size_t n_columns, size_t row, size_t n,
                                     const NextColumns & next) {
    alignas(64) float sums[kRowsAtOnce * kPanelColumns];
    GroupPanel panel;
    std::fill_n(sums, n * kPanelColumns, 0.0F);
    const uint8_t * columns[kPanelColumns];  // behind the last: the last again
    for (size_t c = 0; c < kPanelColumns; ++c) {
        columns[c] = p.weights + (first + HWY_MIN(c, n_columns - 1)) * p.weight_stride;
    }
    const size_t all_groups = p.n_in / kGroup;
    const size_t n_blocks = (all_groups + kBlockGroups - 1) / kBlockGroups;
    const size_t n_tiles = (n + kTileRows - 1) / kTileRows;
    for (size_t b = 0; b < n_blocks; ++b) {
        const size_t n_groups = HWY_MIN(kBlockGroups, all_groups - b * kBlockGroups);
        for (size_t v = 0; v < kPanelVectors; ++v) {
            ColumnPlaces places;
            for (size_t c = 0; c < kN; ++c) { places.set(c, columns[v * kN + c] + b * kBlockGroups * Block<kType>::kBytes); }
            UnpackGroups<kType>(places, n_groups, v * kN, panel);
        }
        next.fetch(b, n_blocks);
        const QuantisedGroups * rows = p.groups + b * padded_rows(p.n) + row;
        for (size_t t = 0; t < n_tiles; ++t) {
            const size_t begin = n * t / n_tiles;
            const size_t n_here = n * (t + 1) / n_tiles - begin;
            MultiplyGroupTileOf<kType>(n_here, panel, n_groups, rows + begin, sums + begin * kPanelColumns);
        }
    }
    for (size_t r = 0; r < n; ++r) {
        std::copy_n(sums + r * kPanelColumns, n_columns, p.out + (row + r) * p.out_stride + first);
    }
}

// The columns behind [c, c + n) of those before `end`.
HWY_INLINE NextColumns NextAfter(const QuantisedProduct & p, size_t c, size_t end, size_t n) {
    const size_t first = HWY_MIN(c + n, end);
    return {p, first, HWY_MIN(n, end - first)};
}

#if HWY_TARGET <= HWY_AVX2
inline constexpr size_t kFewRows = 4;  // that meet columns as they lie
#else
inline constexpr size_t kFewRows = 0;
#endif

// Columns [first, end) for n <= kFewRows rows.
template <QuantType kType, size_t kRows = kFewRows>
HWY_INLINE void MultiplyAsTheyLie([[maybe_unused]] const QuantisedProduct & p, [[maybe_unused]] size_t first,
                                  [[maybe_unused]] size_t end) {
#if HWY_TARGET <= HWY_AVX2
    if constexpr (kRows > 1) {
        if (p.n < kRows) { return MultiplyAsTheyLie<kType, kRows - 1>(p, first, end); }
    }
    for (size_t c = first; c < end; c += kColumnsAtOnce) {
        if constexpr (kInGroups<kType>) {
            MultiplyFewGroupRows<kType, kRows>(p, c, HWY_MIN(kColumnsAtOnce, end - c));
        } else {
            MultiplyFewRows<kType, kRows>(p, c, HWY_MIN(kColumnsAtOnce, end - c));
        }
    }
#endif
}

template <QuantType kType>
HWY_NOINLINE void MultiplyType(const QuantisedProduct & p, size_t first, size_t end, ProductUnit unit) {
    if (unit == ProductUnit::kBest && p.n <= kFewRows) { return MultiplyAsTheyLie<kType>(p, first, end); }
    for (size_t c = first; c < end; c += kPanelColumns) {
        for (size_t row = 0; row < p.n; row += kRowsAtOnce) {
            const size_t n_columns = HWY_MIN(kPanelColumns, end - c);
            const size_t n = HWY_MIN(kRowsAtOnce, p.n - row);
            const NextColumns next = NextAfter(p, c, end, kPanelColumns);
            if constexpr (kInGroups<kType>) {
                MultiplyGroupColumns<kType>(p, c, n_columns, row, n, next);
            } else {
                MultiplyColumns<kType>(p, c, n_columns, row, n, next, unit == ProductUnit::kMatrix);
            }
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
        case QuantType::kQ8_0:
            return MultiplyType<QuantType::kQ8_0>(p, first, end, unit);
        case QuantType::kQ4_0:
            return MultiplyType<QuantType::kQ4_0>(p, first, end, unit);
        case QuantType::kQ4_1:
            return MultiplyType<QuantType::kQ4_1>(p, first, end, unit);
    }
}

int64_t QuantisedTarget() {
    return HWY_TARGET;
}

}  // namespace pith::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pith {

HWY_EXPORT(QuantiseRows);
HWY_EXPORT(MultiplyQuantised);
HWY_EXPORT(QuantisedTarget);

namespace {

constexpr size_t kColumnsDealt = 32;  // that one thread gets at least: a panel's, for any instruction set
constexpr size_t kMatrixRows = 8;     // from so many rows on the matrix unit is faster

std::atomic<ProductUnit> unit_in_use = ProductUnit::kBest;

bool better_than(int64_t target) {  // better sets have smaller numbers
    return HWY_ARCH_X86 != 0 && HWY_DYNAMIC_DISPATCH(QuantisedTarget)() <= target;
}

// The share of n things, dealt in whole units, that thread ith gets.
std::pair<size_t, size_t> share_of(size_t n, size_t unit, int ith, int n_threads) {
    const size_t n_units = (n + unit - 1) / unit;
    const auto begin_of = [&](int thread) {
        return std::min(n, n_units * static_cast<size_t>(thread) / static_cast<size_t>(n_threads) * unit);
    };
    return {begin_of(ith), begin_of(ith + 1)};
}

}  // namespace

void use_product_unit(ProductUnit unit) {
    unit_in_use = unit;
}

bool has_matrix_unit() {
    return better_than(HWY_AVX3_DL) && has_amx_product();
}

void quantise_part(const RowsToQuantise & rows, int ith, int n_threads) {
    const auto [first, end] = share_of(rows.n, 1, ith, n_threads);
    HWY_DYNAMIC_DISPATCH(QuantiseRows)(rows, first, end);
}

void multiply_part(const QuantisedProduct & product, int ith, int n_threads) {
    const auto [first, end] = share_of(product.n_out, kColumnsDealt, ith, n_threads);
    if (first == end || product.n == 0) { return; }
    ProductUnit unit = unit_in_use;
    if (has_groups(product.type)) {
        unit = unit == ProductUnit::kMatrix ? ProductUnit::kVectors : unit;
    } else if (unit == ProductUnit::kBest && product.n >= kMatrixRows && has_matrix_unit()) {
        unit = ProductUnit::kMatrix;
    }
    const AmxSession session(unit == ProductUnit::kMatrix);
    HWY_DYNAMIC_DISPATCH(MultiplyQuantised)(product, first, end, unit);
}

bool quantised_product_pays(QuantType type) {
    // The matrix unit has no use for scales of 32 weights each here; ggml's layout for it is the faster one for few rows.
    if (has_groups(type) && has_matrix_unit()) { return false; }
    // Without products of four bytes those of 8 bits with 8 would not fit where pairs are added up.
    return better_than(type == QuantType::kQ8_0 ? HWY_AVX3_DL : HWY_AVX2);
}

}  // namespace pith
#endif
