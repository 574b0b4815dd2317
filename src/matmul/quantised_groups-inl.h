// quantised_groups-inl.h - weights in groups of 32 with a scale each (Q8_0, Q4_0, Q4_1, IQ4_NL, MXFP4): their panels, and
// columns as they lie.
// Included once per instruction set. Stage: matmul.
//
// Rows are rounded in groups of 32, too. A group's sum of bytes is a whole number and exact; it enters an output's sum in f32,
// group after group, so that panels and columns give the same bits. Source: ggml's block_q8_0, block_q4_0, block_q4_1.
#if defined(PITH_QUANTISED_GROUPS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PITH_QUANTISED_GROUPS_INL_H_
#undef PITH_QUANTISED_GROUPS_INL_H_
#else
#define PITH_QUANTISED_GROUPS_INL_H_
#endif

#include "matmul/quantised_columns-inl.h"
#include "matmul/quantised_rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace pith::PITH_KERNELS {

inline constexpr size_t kGroupSteps = kGroup / 4;

template <>
struct Block<QuantType::kQ8_0> {
    static constexpr size_t kBytes = 34, kQuants = 2;
    static constexpr size_t kPairs = 1;
    static constexpr int kOffset = kHasByteDots ? 128 : 0;  // added to make bytes without a sign; 0: bytes with one
    static constexpr bool kMins = false;
};
template <>
struct Block<QuantType::kQ4_0> {
    static constexpr size_t kBytes = 18, kQuants = 2;
    static constexpr size_t kPairs = 8;  // 8 · 2 · 15 · 127
    static constexpr int kOffset = 8;
    static constexpr bool kMins = false;
};
template <>
struct Block<QuantType::kQ4_1> {
    static constexpr size_t kBytes = 20, kQuants = 4;
    static constexpr size_t kPairs = 8;
    static constexpr int kOffset = 0;
    static constexpr bool kMins = true;
};

template <>
struct Block<QuantType::kIQ4_NL> {
    static constexpr size_t kBytes = 18, kQuants = 2;
    static constexpr size_t kPairs = 1;
    static constexpr int kOffset = kHasByteDots ? 128 : 0;  // 0: bytes with a sign
    static constexpr bool kMins = false;
};
template <>
struct Block<QuantType::kMXFP4> {
    static constexpr size_t kBytes = 17, kQuants = 1;
    static constexpr size_t kPairs = 4;  // 4 · 2 · 24 · 127
    static constexpr int kOffset = 12;
    static constexpr bool kMins = false;
};

// A group's scale in 16 bits, as the file has it.
template <QuantType kType>
HWY_INLINE void CopyScale(const uint8_t * group, uint16_t * to) {
    if constexpr (kType == QuantType::kMXFP4) {
        *to = group[0];
    } else {
        hwy::CopyBytes<2>(group, to);
    }
}
// kN of these become floats of 16 bits: an exponent e the upper half of a float of 32 bits, 2^(e - 128), since the table has
// the values twice as large.
template <QuantType kType>
HWY_INLINE void SettleScales(uint16_t * scales) {
    if constexpr (kType == QuantType::kMXFP4) {
        const hn::Rebind<uint16_t, DF> d;
        const auto e = hn::LoadU(d, scales);
        const auto subnormal = hn::Add(hn::Set(d, 0x20), hn::ShiftLeft<5>(e));
        const auto normal = hn::ShiftLeft<7>(hn::Sub(e, hn::Set(d, 1)));
        hn::StoreU(hn::IfThenElse(hn::Lt(e, hn::Set(d, 2)), subnormal, normal), d, scales);
    }
}
template <QuantType kType>
HWY_INLINE VF ScalesOf(const uint16_t * scales) {
    if constexpr (kType == QuantType::kMXFP4) {
        const DU32 d;
        const auto bits = hn::PromoteTo(d, hn::LoadU(hn::Rebind<uint16_t, DF>(), scales));
        return hn::BitCast(DF(), hn::ShiftLeft<16>(bits));
    } else {
        return HalvesOf(scales);
    }
}

// The same of the lower 16 bits of each lane.
template <QuantType kType>
HWY_INLINE VF ScaleOf(VI scales) {
    if constexpr (kType == QuantType::kMXFP4) {
        return hn::BitCast(DF(), hn::ShiftLeft<16>(scales));
    } else {
        return HalfOf(scales);
    }
}

// n_groups groups of kPanelColumns columns.
struct GroupPanel {
    size_t n_groups = 0;
    alignas(64) uint8_t quants[kPanelSteps][kPanelColumns][4];
    alignas(64) uint16_t d[kBlockGroups][kPanelColumns];  // SettleScales
    alignas(64) uint16_t m[kBlockGroups][kPanelColumns];
};

// The panel's groups of kN columns, from c on.
template <QuantType kType>
HWY_INLINE void UnpackColumns(const ColumnPlaces & columns, size_t c, GroupPanel & to) {
    using B = Block<kType>;
    for (size_t g = 0; g < to.n_groups; ++g) {
        const size_t at = g * B::kBytes;
        VI words[8];
        LoadWords(columns, at + B::kQuants, words);
        if constexpr (kType == QuantType::kQ8_0) {
            LoadWords(columns, at + B::kQuants + 16, words + 4);
            const VI signs = hn::BitCast(DI(), hn::Set(DU8(), B::kOffset));
            PITH_UNROLL
            for (size_t i = 0; i < 8; ++i) { StoreStep(hn::Xor(words[i], signs), kGroupSteps * g + i, c, to); }
        } else {
            StoreGroup<kType, B::kOffset>(words, kGroupSteps * g, c, to);
        }
        for (size_t i = 0; i < kN; ++i) {
            const uint8_t * group = columns.of(i) + at;
            CopyScale<kType>(group, &to.d[g][c + i]);
            if constexpr (B::kMins) { hwy::CopyBytes<2>(group + 2, &to.m[g][c + i]); }
        }
        SettleScales<kType>(to.d[g] + c);
    }
}

// sums [kRows][kPanelColumns] += the rows' products with the panel.
template <QuantType kType, size_t kRows>
HWY_INLINE void MultiplyTile(const GroupPanel & panel, const QuantisedGroups * rows, float * sums) {
    using B = Block<kType>;
    const DI di;
    const DF df;
    VF all[kRows][kPanelVectors];
    PITH_UNROLL
    for (size_t r = 0; r < kRows; ++r) {
        PITH_UNROLL
        for (size_t v = 0; v < kPanelVectors; ++v) { all[r][v] = hn::Load(df, sums + r * kPanelColumns + v * kN); }
    }
    for (size_t g = 0; g < panel.n_groups; ++g) {
        VI group[kRows][kPanelVectors];
        PITH_UNROLL
        for (size_t r = 0; r < kRows; ++r) {
            PITH_UNROLL
            for (size_t v = 0; v < kPanelVectors; ++v) { group[r][v] = hn::Set(di, -B::kOffset * rows[r].sums[g]); }
        }
        AddSteps<kGroupSteps, B::kPairs, kHasSign<kType>>(panel.quants, g * kGroupSteps, rows, group);
        PITH_UNROLL
        for (size_t v = 0; v < kPanelVectors; ++v) {
            const VF d = ScalesOf<kType>(panel.d[g] + v * kN);
            PITH_UNROLL
            for (size_t r = 0; r < kRows; ++r) {
                const VF scale = hn::Mul(d, hn::Set(df, rows[r].scales[g]));
                all[r][v] = hn::MulAdd(hn::ConvertTo(df, group[r][v]), scale, all[r][v]);
                if constexpr (B::kMins) {
                    all[r][v] = hn::MulAdd(HalvesOf(panel.m[g] + v * kN), hn::Set(df, rows[r].scaled_sums[g]), all[r][v]);
                }
            }
        }
    }
    PITH_UNROLL
    for (size_t r = 0; r < kRows; ++r) {
        PITH_UNROLL
        for (size_t v = 0; v < kPanelVectors; ++v) { hn::Store(all[r][v], df, sums + r * kPanelColumns + v * kN); }
    }
}

#if HWY_TARGET <= HWY_AVX2

// Groups of a column whose sums are known before floats come in: all that a column has, or nearly, since memory is fastest from
// its first to its last byte.
inline constexpr size_t kGroupsAtOnce = 512;

// A column's groups side by side, those of a block in the order of kPlaceInBlock; columns not a power of two apart, which would
// be in one another's places of the cache.
template <size_t kRows>
struct GroupSums {
    static constexpr size_t kStride = kGroupsAtOnce + 16;
    alignas(64) int32_t all[kRows][kColumnsAtOnce][kStride];
    alignas(64) uint16_t d[kColumnsAtOnce][kStride];  // in their own order; SettleScales
    alignas(64) uint16_t m[kColumnsAtOnce][kStride];
};
// Of the k-th group: the first of each two, then the second of each two.
inline constexpr size_t kPlaceInBlock[kBlockGroups] = {0, 4, 1, 5, 2, 6, 3, 7};

// Vectors of 32 bytes: half of a group, and half of its neighbour.
using DPairU8 = hn::FixedTag<uint8_t, 32>;
using DPairI8 = hn::FixedTag<int8_t, 32>;
using DPairI16 = hn::FixedTag<int16_t, 16>;
using DPairI = hn::FixedTag<int32_t, 8>;

// 16 bytes of each.
HWY_INLINE hn::Vec<DPairU8> SideBySide(const uint8_t * one, const uint8_t * other) {
    const hn::Full128<uint8_t> half;
    return hn::Combine(DPairU8(), hn::LoadU(half, other), hn::LoadU(half, one));
}

// The weights of two groups: the first 16 of both, and the last 16 of both.
struct PairWeights {
    hn::Vec<DPairU8> first;
    hn::Vec<DPairU8> last;
};
template <QuantType kType>
HWY_INLINE PairWeights WeightsOfPair(const uint8_t * one, const uint8_t * other) {
    const DPairU8 d;
    constexpr size_t kQuants = Block<kType>::kQuants;
    const auto bytes = SideBySide(one + kQuants, other + kQuants);
    if constexpr (kType == QuantType::kQ8_0) {
        const auto sign = hn::Set(d, Block<kType>::kOffset);
        return {hn::Xor(bytes, sign), hn::Xor(SideBySide(one + kQuants + 16, other + kQuants + 16), sign)};
    } else {
        const hn::Repartition<uint16_t, DPairU8> d16;
        const auto low_half = hn::Set(d, 15);
        const auto first = hn::And(bytes, low_half);
        const auto last = hn::And(hn::BitCast(d, hn::ShiftRight<4>(hn::BitCast(d16, bytes))), low_half);
        if constexpr (has_value_table(kType)) {
            constexpr int kOffset = Block<kType>::kOffset;
            return {LookUpValues<kType, kOffset>(first), LookUpValues<kType, kOffset>(last)};
        } else {
            return {first, last};
        }
    }
}

// Whether eight pairs of products, added up, fit 16 bits.
template <QuantType kType>
inline constexpr bool kSumsFit16 = !kHasByteDots && Block<kType>::kPairs >= 8;

// The products of two groups, each in a half: lanes of 32 bits, of 16 where kSumsFit16.
template <QuantType kType>
HWY_INLINE auto ProductsOfPair(const PairWeights & w, const int8_t * quants) {
    const DPairI di;
    const DPairI16 d16;
    const auto first = hn::LoadU(DPairI8(), quants);
    const auto last = hn::LoadU(DPairI8(), quants + 32);
    if constexpr (kHasByteDots) {
        return AddByteDots(di, w.last, last, AddByteDots(di, w.first, first, hn::Zero(di)));
    } else {
        const auto of_first = ByteProducts<kHasSign<kType>>(d16, w.first, first);
        const auto of_last = ByteProducts<kHasSign<kType>>(d16, w.last, last);
        const auto one = hn::Set(d16, int16_t{1});
        if constexpr (kSumsFit16<kType>) {
            return hn::Add(of_first, of_last);
        } else if constexpr (Block<kType>::kPairs >= 2) {
            return hn::WidenMulPairwiseAdd(di, hn::Add(of_first, of_last), one);
        } else {
            return hn::Add(hn::WidenMulPairwiseAdd(di, of_first, one), hn::WidenMulPairwiseAdd(di, of_last, one));
        }
    }
}

// The sums over each half of four vectors, in each half as they come: eight groups in the order of kPlaceInBlock.
HWY_INLINE hn::Vec<DPairI> SumsOfHalves(hn::Vec<DPairI> a, hn::Vec<DPairI> b, hn::Vec<DPairI> c, hn::Vec<DPairI> e) {
    return BlockSumsOf4(a, b, c, e);
}
HWY_INLINE hn::Vec<DPairI> SumsOfHalves(hn::Vec<DPairI16> a, hn::Vec<DPairI16> b, hn::Vec<DPairI16> c, hn::Vec<DPairI16> e) {
    const DPairI16 d;
    const DPairI d32;
    static constexpr uint8_t kNeighbours[16] = {0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15};
    const auto ab = hn::BitCast(d32, hn::Add(hn::InterleaveLower(d, a, b), hn::InterleaveUpper(d, a, b)));
    const auto ce = hn::BitCast(d32, hn::Add(hn::InterleaveLower(d, c, e), hn::InterleaveUpper(d, c, e)));
    const auto low = hn::BitCast(d, hn::InterleaveLower(d32, ab, ce));
    const auto high = hn::BitCast(d, hn::InterleaveUpper(d32, ab, ce));
    const auto twice = hn::BitCast(DPairU8(), hn::Add(low, high));  // a b c e, and once more of the other lanes
    const auto side_by_side = hn::TableLookupBytes(twice, hn::LoadDup128(DPairU8(), kNeighbours));
    return hn::WidenMulPairwiseAdd(d32, hn::BitCast(d, side_by_side), hn::Set(d, int16_t{1}));
}

// n groups of a column, at most kBlockGroups, of which the first is the panel's group g; rows: their block. With n known
// nothing is left to ask.
template <QuantType kType, size_t kRows, class Count>
HWY_INLINE void MultiplyBlockGroups(const uint8_t * groups, const QuantisedGroups * rows, Count n, size_t g, size_t c,
                                    GroupSums<kRows> & to) {
    using B = Block<kType>;
    const auto group = [&](size_t i) HWY_ATTR {  // behind the last: the last again
        return groups + HWY_MIN(i, size_t{n} - 1) * B::kBytes;
    };
    PITH_UNROLL
    for (size_t i = 0; i < kBlockGroups; ++i) {
        CopyScale<kType>(group(i), &to.d[c][g + i]);
        if constexpr (B::kMins) { hwy::CopyBytes<2>(group(i) + 2, &to.m[c][g + i]); }
    }
    PairWeights w[kBlockGroups / 2];
    PITH_UNROLL
    for (size_t i = 0; i < kBlockGroups / 2; ++i) { w[i] = WeightsOfPair<kType>(group(2 * i), group(2 * i + 1)); }
    PITH_UNROLL
    for (size_t r = 0; r < kRows; ++r) {
        const auto products = [&](size_t i) HWY_ATTR { return ProductsOfPair<kType>(w[i], rows[r].quants + i * 2 * kGroup); };
        hn::Store(SumsOfHalves(products(0), products(1), products(2), products(3)), DPairI(), to.all[r][c] + g);
    }
}

// Groups [first, first + n) of one column, from its first to its last byte; first: of a block.
template <QuantType kType, size_t kRows>
HWY_INLINE void MultiplyGroupColumn(const QuantisedProduct & p, const uint8_t * column, size_t first, size_t n, size_t c,
                                    GroupSums<kRows> & to) {
    const uint8_t * groups = column + first * Block<kType>::kBytes;
    const QuantisedGroups * rows = p.groups + first / kBlockGroups * p.block_stride;
    for (size_t g = 0; g < n; g += kBlockGroups, rows += p.block_stride) {
        FetchFar(groups, kBlockGroups * Block<kType>::kBytes);
        if (n - g >= kBlockGroups) {
            MultiplyBlockGroups<kType, kRows>(groups, rows, std::integral_constant<size_t, kBlockGroups>(), g, c, to);
        } else {
            MultiplyBlockGroups<kType, kRows>(groups, rows, n - g, g, c, to);
        }
        groups += kBlockGroups * Block<kType>::kBytes;
    }
    for (size_t g = 0; g < n; g += kN) { SettleScales<kType>(to.d[c] + g); }
}

// Scales of the kBlockGroups groups from `first` on.
template <QuantType kType, size_t kStride>
HWY_INLINE void LoadScales(const uint16_t (&columns)[kN][kStride], size_t first, VF (&to)[kBlockGroups]) {
    VI pairs[kBlockGroups / 2];
    LoadWords(PlacesOf(columns[0] + first, kStride), 0, pairs);
    PITH_UNROLL
    for (size_t i = 0; i < kBlockGroups / 2; ++i) {
        to[2 * i] = ScaleOf<kType>(pairs[i]);
        to[2 * i + 1] = ScaleOf<kType>(hn::ShiftRight<16>(pairs[i]));
    }
}

// sums += those of n groups, at most kBlockGroups, of which the first is g, times their scales; rows: of their block.
template <QuantType kType, size_t kRows, class Count>
HWY_INLINE void AddGroups(const GroupSums<kRows> & whole, size_t g, Count n, const QuantisedGroups * rows, VF (&sums)[kRows]) {
    using B = Block<kType>;
    const DI di;
    const DF df;
    VF d[kBlockGroups];
    VF m[kBlockGroups];
    LoadScales<kType>(whole.d, g, d);
    if constexpr (B::kMins) { LoadScales<QuantType::kQ4_1>(whole.m, g, m); }
    PITH_UNROLL
    for (size_t r = 0; r < kRows; ++r) {
        VI dots[kBlockGroups];
        const ColumnPlaces columns = PlacesOf(whole.all[r][0] + g, GroupSums<kRows>::kStride);
        LoadWords(columns, 0, dots);
        LoadWords(columns, 16, dots + 4);
        PITH_UNROLL
        for (size_t i = 0; i < size_t{n}; ++i) {
            const VI dot = hn::Add(dots[kPlaceInBlock[i]], hn::Set(di, -B::kOffset * rows[r].sums[i]));
            sums[r] = hn::MulAdd(hn::ConvertTo(df, dot), hn::Mul(d[i], hn::Set(df, rows[r].scales[i])), sums[r]);
            if constexpr (B::kMins) { sums[r] = hn::MulAdd(m[i], hn::Set(df, rows[r].scaled_sums[i]), sums[r]); }
        }
    }
}

// out [kRows][out_stride] of n_columns columns from `first` on, at most kColumnsAtOnce of them.
template <QuantType kType, size_t kRows>
HWY_NOINLINE void MultiplyFewGroupRows(const QuantisedProduct & p, size_t first, size_t n_columns) {
    const DF df;
    const size_t n_groups = p.n_in / kGroup;
    GroupSums<kRows> whole;
    VF sums[kRows];
    for (size_t r = 0; r < kRows; ++r) { sums[r] = hn::Zero(df); }
    for (size_t from = 0; from < n_groups; from += kGroupsAtOnce) {
        const size_t n = HWY_MIN(kGroupsAtOnce, n_groups - from);
        for (size_t c = 0; c < kColumnsAtOnce; ++c) {  // behind the last: the last again
            const uint8_t * column = p.weights + (first + HWY_MIN(c, n_columns - 1)) * p.weight_stride;
            MultiplyGroupColumn<kType>(p, column, from, n, c, whole);
        }
        const QuantisedGroups * rows = p.groups + from / kBlockGroups * p.block_stride;
        for (size_t g = 0; g < n; g += kBlockGroups, rows += p.block_stride) {
            if (n - g >= kBlockGroups) {
                AddGroups<kType, kRows>(whole, g, std::integral_constant<size_t, kBlockGroups>(), rows, sums);
            } else {
                AddGroups<kType, kRows>(whole, g, n - g, rows, sums);
            }
        }
    }
    for (size_t r = 0; r < kRows; ++r) { hn::StoreN(sums[r], df, p.out_row(r) + first, n_columns); }
}

#endif

}  // namespace pith::PITH_KERNELS
HWY_AFTER_NAMESPACE();
#endif
