// quantised_columns-inl.h - few rows of activations: columns of weights are multiplied as they lie, since to unpack a panel for
// so few rows costs more than their products. Included once per instruction set. Stage: matmul.
//
// A vector of weights lies along a column. Products of bytes are added up in pairs, and pairs times their group's scale in
// fours: whole numbers all the way, so that the sums of a block are the same as a panel's.
#if defined(PITH_QUANTISED_COLUMNS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PITH_QUANTISED_COLUMNS_INL_H_
#undef PITH_QUANTISED_COLUMNS_INL_H_
#else
#define PITH_QUANTISED_COLUMNS_INL_H_
#endif

#include "hwy/cache_control.h"
#include "matmul/quantised_panel-inl.h"

HWY_BEFORE_NAMESPACE();
namespace pith::HWY_NAMESPACE {

#if HWY_TARGET <= HWY_AVX2  // shorter vectors than 32 bytes would cut a group of 32

using DI8 = hn::Repartition<int8_t, DI>;
using VU8 = hn::Vec<DU8>;
using VI8 = hn::Vec<DI8>;
using VI16 = hn::Vec<DI16>;

inline constexpr size_t kVectorBytes = 4 * kN;
inline constexpr bool kTwoGroups = kVectorBytes == 64;  // of 32 in a vector
inline constexpr size_t kBlockVectors = kQuantBlock / kVectorBytes;
// Columns whose sums are brought together; so many lanes has an instruction's result.
inline constexpr size_t kColumnsAtOnce = kN;
inline constexpr size_t kBlocksAtOnce = 64;
inline constexpr size_t kFetchAhead = 2048;  // bytes

// A block of one column: `vectors` of weights, each with its groups' scales in 16 bits.
struct ColumnBlock {
    VU8 weights[kBlockVectors];
    VI16 scales[kBlockVectors];
};

// 32 bytes, in both halves of longer vectors, the upper half's bits moved down by two.
HWY_INLINE VU8 HighBits(const uint8_t * from) {
    const DU8 d8;
    if constexpr (kTwoGroups) {
        const hn::Half<DU8> half;
        const hn::Repartition<uint16_t, hn::Half<DU8>> half16;
        const auto bits = hn::LoadU(half, from);
        return hn::Combine(d8, hn::BitCast(half, hn::ShiftRight<2>(hn::BitCast(half16, bits))), bits);
    } else {
        return hn::LoadU(d8, from);
    }
}
template <int kBits>
HWY_INLINE VU8 Down(VU8 v) {
    const hn::Repartition<uint16_t, DU8> d16;
    return hn::BitCast(DU8(), hn::ShiftRight<kBits>(hn::BitCast(d16, v)));
}
template <int kBits>
HWY_INLINE VU8 Up(VU8 v) {
    const hn::Repartition<uint16_t, DU8> d16;
    return hn::BitCast(DU8(), hn::ShiftLeft<kBits>(hn::BitCast(d16, v)));
}

// The numbers of the vectors' groups, for a look-up of bytes in 16 scales: {g, none} for scales without a sign, {none, g} for
// those with one, which are then moved down.
struct ScaleTable {
    alignas(64) uint8_t of[kBlockVectors][kVectorBytes];
};
template <QuantType kType>
HWY_INLINE const ScaleTable & ScalePlaces() {
    static const ScaleTable table = [] {
        ScaleTable t;
        for (size_t v = 0; v < kBlockVectors; ++v) {
            for (size_t i = 0; i < kVectorBytes; ++i) {
                size_t group = 0;
                if (kType == QuantType::kQ6_K) {
                    group = (v * kVectorBytes + i) / 16;
                } else if (kType == QuantType::kIQ4_XS) {
                    group = (v * kVectorBytes + i) / 32;
                } else if (kTwoGroups) {
                    group = v / 2 * 4 + v % 2 + i / 32 * 2;
                } else {
                    group = v;
                }
                const bool second = i % 2 == 1;
                t.of[v][i] = second == !Block<kType>::kMins ? static_cast<uint8_t>(group) : uint8_t{0x80};
            }
        }
        return t;
    }();
    return table;
}

// The row's quants in the order in which vectors of weights have theirs: Q4_K and Q5_K have 32 weights in the lower halves of
// 32 bytes and the next 32 in the upper ones, so that a vector of 64 has every second group; the others have them as they come.
template <QuantType kType>
HWY_INLINE VI8 RowVector(const QuantisedBlock & row, size_t v) {
    const DI8 d8;
    if constexpr (!Block<kType>::kMins || !kTwoGroups) {
        return hn::LoadU(d8, row.quants + v * kVectorBytes);
    } else {
        const hn::Half<DI8> half;
        const int8_t * first = row.quants + (v / 2 * 4 + v % 2) * 32;
        return hn::Combine(d8, hn::LoadU(half, first + 64), hn::LoadU(half, first));
    }
}

// 8 scales and 8 minima of 6 bits, a byte each.
struct SixBits {
    uint64_t scales;
    uint64_t mins;
};
HWY_INLINE SixBits UnpackSixBits(const uint8_t * from) {
    uint32_t s[3];
    hwy::CopyBytes<12>(from, s);
    const uint64_t high_scales = (s[2] & 0x0f0f0f0fU) | ((s[0] >> 2U) & 0x30303030U);
    const uint64_t high_mins = ((s[2] >> 4U) & 0x0f0f0f0fU) | ((s[1] >> 2U) & 0x30303030U);
    return {(s[0] & 0x3f3f3f3fU) | high_scales << 32U, (s[1] & 0x3f3f3f3fU) | high_mins << 32U};
}

// Each byte of `scales` becomes the scale of its group's pairs; it has a sign where the type has no minima.
template <QuantType kType>
HWY_INLINE void PlaceScales(VU8 scales, ColumnBlock & to) {
    const ScaleTable & places = ScalePlaces<kType>();
    PITH_UNROLL
    for (size_t v = 0; v < kBlockVectors; ++v) {
        const auto placed = hn::BitCast(DI16(), hn::TableLookupBytesOr0(scales, hn::Load(DU8(), places.of[v])));
        to.scales[v] = Block<kType>::kMins ? placed : hn::ShiftRight<8>(placed);
    }
}

// IQ4_XS: weights with a sign, 8 scales of 6 bits less 32: four bits of each side by side, and the two upper ones.
HWY_INLINE void ReadColumnOfSteps16(const uint8_t * block, ColumnBlock & to) {
    constexpr QuantType kType = QuantType::kIQ4_XS;
    const DU8 d8;
    const DU32 d32;
    const auto down = hn::And(hn::Iota(d32, 0), hn::Set(d32, 4));  // bits; each second 128 of them have the upper halves
    PITH_UNROLL
    for (size_t v = 0; v < kBlockVectors; ++v) {
        const uint8_t * from = block + Block<kType>::kLow + v * kVectorBytes / 2;
        VU8 twice;
        if constexpr (kTwoGroups) {
            const hn::Half<DU8> half;
            twice = hn::Combine(d8, hn::LoadDup128(half, from + 16), hn::LoadDup128(half, from));
        } else {
            twice = hn::LoadDup128(d8, from);
        }
        const VU8 numbers = hn::And(hn::BitCast(d8, hn::Shr(hn::BitCast(d32, twice), down)), hn::Set(d8, 15));
        to.weights[v] = LookUpValues<kType, 0>(numbers);
    }
    uint16_t high16 = 0;
    uint32_t low32 = 0;
    hwy::CopyBytes<2>(block + 2, &high16);
    hwy::CopyBytes<4>(block + 4, &low32);
    uint64_t low = low32;
    uint64_t high = high16;
    low = (low | low << 16U) & 0x0000ffff0000ffffU;
    low = (low | low << 8U) & 0x00ff00ff00ff00ffU;
    low = (low | low << 4U) & 0x0f0f0f0f0f0f0f0fU;
    high = (high | high << 24U) & 0x000000ff000000ffU;
    high = (high | high << 12U) & 0x000f000f000f000fU;
    high = (high | high << 6U) & 0x0303030303030303U;
    const VU8 scales = hn::BitCast(d8, hn::Set(hn::Repartition<uint64_t, DU8>(), low | high << 4U));
    PlaceScales<kType>(hn::Sub(scales, hn::Set(d8, 32)), to);
}

template <QuantType kType>
HWY_INLINE void ReadColumn(const uint8_t * block, ColumnBlock & to) {
    using B = Block<kType>;
    const DU8 d8;
    const VU8 low_half = hn::Set(d8, 15);
    const VU8 bit4 = hn::Set(d8, 16);
    const VU8 bits45 = hn::Set(d8, 0x30);
    if constexpr (kType == QuantType::kIQ4_XS) {
        ReadColumnOfSteps16(block, to);
    } else if constexpr (kType == QuantType::kQ6_K) {
        PITH_UNROLL
        for (size_t half = 0; half < 2; ++half) {  // of 128 weights
            const uint8_t * low = block + 64 * half;
            if constexpr (kTwoGroups) {
                const VU8 bytes = hn::LoadU(d8, low);
                const VU8 high = HighBits(block + B::kHigh + 32 * half);
                to.weights[2 * half] = hn::Or(hn::And(bytes, low_half), hn::And(Up<4>(high), bits45));
                to.weights[2 * half + 1] = hn::Or(hn::And(Down<4>(bytes), low_half), hn::And(high, bits45));
            } else {
                const VU8 first = hn::LoadU(d8, low);
                const VU8 second = hn::LoadU(d8, low + 32);
                const VU8 high = hn::LoadU(d8, block + B::kHigh + 32 * half);
                to.weights[4 * half] = hn::Or(hn::And(first, low_half), hn::And(Up<4>(high), bits45));
                to.weights[4 * half + 1] = hn::Or(hn::And(second, low_half), hn::And(Up<2>(high), bits45));
                to.weights[4 * half + 2] = hn::Or(hn::And(Down<4>(first), low_half), hn::And(high, bits45));
                to.weights[4 * half + 3] = hn::Or(hn::And(Down<4>(second), low_half), hn::And(Down<2>(high), bits45));
            }
        }
        PlaceScales<kType>(hn::LoadDup128(d8, block + B::kScales), to);
    } else {
        VU8 high = hn::Zero(d8);
        if constexpr (kType == QuantType::kQ5_K) { high = HighBits(block + B::kHigh); }
        PITH_UNROLL
        for (size_t j = 0; j < kBlockVectors / 2; ++j) {
            const VU8 bytes = hn::LoadU(d8, block + B::kLow + j * kVectorBytes);
            to.weights[2 * j] = hn::And(bytes, low_half);
            to.weights[2 * j + 1] = hn::And(Down<4>(bytes), low_half);
            if constexpr (kType == QuantType::kQ5_K) {
                to.weights[2 * j] = hn::Or(to.weights[2 * j], hn::And(Up<4>(high), bit4));
                to.weights[2 * j + 1] = hn::Or(to.weights[2 * j + 1], hn::And(Up<3>(high), bit4));
                high = kTwoGroups ? Down<4>(high) : Down<2>(high);
            }
        }
        PlaceScales<kType>(hn::BitCast(d8, hn::Set(hn::Repartition<uint64_t, DU8>(), UnpackSixBits(block + 4).scales)), to);
    }
}

// What is known of kColumnsAtOnce columns of up to kBlocksAtOnce blocks before floats come in.
template <size_t kRows>
struct WholeSums {
    alignas(64) int32_t all[kBlocksAtOnce][kRows][kColumnsAtOnce];
    alignas(64) int32_t less[kBlocksAtOnce][kRows][kColumnsAtOnce];  // what minima take off
    alignas(64) uint16_t d[kBlocksAtOnce][kColumnsAtOnce];
    alignas(64) uint16_t dmin[kBlocksAtOnce][kColumnsAtOnce];
};

// sums += a block of a column times one of each row, along the column.
template <QuantType kType, size_t kRows>
HWY_INLINE void MultiplyBlock(const uint8_t * block, const QuantisedBlock * rows, VI (&sums)[kRows]) {
    using B = Block<kType>;
    const DI di;
    const DI16 di16;
    ColumnBlock column;
    ReadColumn<kType>(block, column);
    PITH_UNROLL
    for (size_t r = 0; r < kRows; ++r) {
        VI sum = hn::Zero(di);
        PITH_UNROLL
        for (size_t v = 0; v < kBlockVectors; ++v) {
            constexpr bool kSigned = kType == QuantType::kIQ4_XS;
            const VI16 pairs = ByteProducts<kSigned>(di16, column.weights[v], RowVector<kType>(rows[r], v));
            sum = hn::Add(sum, hn::WidenMulPairwiseAdd(di, pairs, column.scales[v]));
        }
        if constexpr (kType == QuantType::kQ6_K) {
            const hn::Rebind<int8_t, DI> d8;
            PITH_UNROLL
            for (size_t g = 0; g < 16; g += kN) {
                const auto scales = hn::LoadU(d8, reinterpret_cast<const int8_t *>(block + B::kScales + g));
                sum = hn::Add(sum, hn::Mul(hn::PromoteTo(di, scales), hn::LoadU(di, rows[r].offsets + g)));
            }
        }
        sums[r] = sum;
    }
}

// A block's d and dmin as the file has them, and its minima times the sums of the rows.
template <QuantType kType, size_t kRows>
HWY_INLINE void ReadEnds(const uint8_t * block, const QuantisedBlock * rows, size_t b, size_t c, WholeSums<kRows> & to) {
    using B = Block<kType>;
    if constexpr (B::kMins) {
        const hn::FixedTag<int32_t, 4> d4;
        const hn::FixedTag<int16_t, 8> d8;
        const hn::FixedTag<uint8_t, 8> bytes;
        hwy::CopyBytes<2>(block, &to.d[b][c]);
        hwy::CopyBytes<2>(block + 2, &to.dmin[b][c]);
        const hn::FixedTag<uint64_t, 1> one;
        const auto mins = hn::PromoteTo(d8, hn::BitCast(bytes, hn::Set(one, UnpackSixBits(block + 4).mins)));
        PITH_UNROLL
        for (size_t r = 0; r < kRows; ++r) {
            to.less[b][r][c] = hn::ReduceSum(d4, hn::WidenMulPairwiseAdd(d4, mins, hn::LoadU(d8, rows[r].sums)));
        }
    } else {
        hwy::CopyBytes<2>(block + B::kD, &to.d[b][c]);
    }
}

// The blocks [first, first + n) of one column, from its first to its last byte: that is the order which memory is fast in.
template <QuantType kType, size_t kRows>
HWY_INLINE void MultiplyColumn(const QuantisedProduct & p, const uint8_t * column, size_t first, size_t n, size_t c,
                               WholeSums<kRows> & to) {
    constexpr size_t kBytes = Block<kType>::kBytes;
    const hn::FixedTag<int32_t, 4> d4;
    for (size_t b = 0; b < n; b += 4) {
        VI sums[4][kRows];
        for (size_t i = 0; i < 4; ++i) {
            const size_t at = HWY_MIN(b + i, n - 1);  // behind the last: the last again
            const uint8_t * block = column + (first + at) * kBytes;
            const QuantisedBlock * rows = p.x + (first + at) * p.block_stride;
            for (size_t ahead = 0; ahead < kBytes; ahead += 64) { hwy::Prefetch(block + kFetchAhead + ahead); }
            MultiplyBlock<kType>(block, rows, sums[i]);
            ReadEnds<kType>(block, rows, at, c, to);
        }
        PITH_UNROLL
        for (size_t r = 0; r < kRows; ++r) {
            alignas(16) int32_t whole[4];
            hn::Store(SumsOf4(sums[0][r], sums[1][r], sums[2][r], sums[3][r]), d4, whole);
            for (size_t i = 0; i < HWY_MIN(size_t{4}, n - b); ++i) { to.all[b + i][r][c] = whole[i]; }
        }
    }
}

// out [kRows][out_stride] of n_columns columns from `first` on, at most kColumnsAtOnce of them.
template <QuantType kType, size_t kRows>
HWY_INLINE void MultiplyFewRows(const QuantisedProduct & p, size_t first, size_t n_columns) {
    const DI di;
    const DF df;
    const size_t n_blocks = p.n_in / kQuantBlock;
    WholeSums<kRows> whole;
    VF sums[kRows];
    for (size_t r = 0; r < kRows; ++r) { sums[r] = hn::Zero(df); }
    for (size_t from = 0; from < n_blocks; from += kBlocksAtOnce) {
        const size_t n = HWY_MIN(kBlocksAtOnce, n_blocks - from);
        for (size_t c = 0; c < kColumnsAtOnce; ++c) {  // behind the last: the last again
            const uint8_t * column = p.weights + (first + HWY_MIN(c, n_columns - 1)) * p.weight_stride;
            MultiplyColumn<kType>(p, column, from, n, c, whole);
        }
        for (size_t b = 0; b < n; ++b) {
            const VF d = HalvesOf(whole.d[b]);
            PITH_UNROLL
            for (size_t r = 0; r < kRows; ++r) {
                VF y = hn::Mul(hn::ConvertTo(df, hn::Load(di, whole.all[b][r])), d);
                if constexpr (Block<kType>::kMins) {
                    y = hn::NegMulAdd(hn::ConvertTo(df, hn::Load(di, whole.less[b][r])), HalvesOf(whole.dmin[b]), y);
                }
                sums[r] = hn::MulAdd(y, hn::Set(df, p.x[(from + b) * p.block_stride + r].scale), sums[r]);
            }
        }
    }
    for (size_t r = 0; r < kRows; ++r) { hn::StoreN(sums[r], df, p.out_row(r) + first, n_columns); }
}

#endif

}  // namespace pith::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
