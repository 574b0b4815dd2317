// quantised_columns-inl.h - few rows of activations: columns of weights are multiplied as they lie, since to unpack a panel for
// so few rows costs more than their products. Included once per instruction set. Stage: matmul.
//
// A vector of weights lies along a column. Products of bytes are added up in pairs, and pairs times their group's scale in
// fours: whole numbers all the way, so that the sums of a block are the same as a panel's. Blocks are read four at a time, so
// that what is done across a vector (scales of 6 bits, sums over lanes) is done once for four.
#if defined(PITH_QUANTISED_COLUMNS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PITH_QUANTISED_COLUMNS_INL_H_
#undef PITH_QUANTISED_COLUMNS_INL_H_
#else
#define PITH_QUANTISED_COLUMNS_INL_H_
#endif

#include "hwy/cache_control.h"
#include "matmul/quantised_panel-inl.h"

HWY_BEFORE_NAMESPACE();
namespace pith::PITH_KERNELS {

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

// Asks for n bytes `ahead` of these. Far ahead only for the second cache: in the first one, where the rows and the sums are,
// what comes too early pushes them out, and rows of 8,960 then cost twice the time.
HWY_INLINE void FetchFar(const uint8_t * from, size_t n, size_t ahead = 16384) {
#if HWY_COMPILER_GCC || HWY_COMPILER_CLANG
    for (size_t at = ahead; at < ahead + n; at += 64) { __builtin_prefetch(from + at, 0, 2); }
#endif
}
HWY_INLINE void FetchNear(const uint8_t * from, size_t n, size_t ahead = 1024) {
    for (size_t at = ahead; at < ahead + n; at += 64) { hwy::Prefetch(from + at); }
}

// A block of one column: vectors of weights, each with its groups' scales in 16 bits.
struct ColumnBlock {
    VU8 weights[kBlockVectors];
    VI16 scales[kBlockVectors];
};

// 32 bytes; longer vectors have them in both halves, the upper half's bits moved down by kShift.
template <int kShift>
HWY_INLINE VU8 HalvesMovedDown(const uint8_t * from) {
    const DU8 d8;
    if constexpr (kTwoGroups) {
        const hn::Half<DU8> half;
        const DU32 d32;
        const auto bytes = hn::LoadU(half, from);
        const auto upper = hn::ShiftRight<3>(hn::And(hn::Iota(d32, 0), hn::Set(d32, 8)));  // 1 there, else 0
        return hn::BitCast(d8, hn::Shr(hn::BitCast(d32, hn::Combine(d8, bytes, bytes)), hn::Mul(upper, hn::Set(d32, kShift))));
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
inline constexpr ScaleTable kScalePlaces = [] {
    ScaleTable table = {};
    constexpr size_t kWeights = kType == QuantType::kQ6_K ? 16 : 32;  // of a group
    for (size_t v = 0; v < kBlockVectors; ++v) {
        for (size_t i = 0; i < kVectorBytes; ++i) {
            const auto group = static_cast<uint8_t>((v * kVectorBytes + i) / kWeights);
            const bool second = i % 2 == 1;
            table.of[v][i] = second == !Block<kType>::kMins ? group : uint8_t{0x80};
        }
    }
    return table;
}();

// 8 scales and 8 minima of 6 bits, a byte each.
struct SixBits {
    uint8_t scales[8];
    uint8_t mins[8];
};
static_assert(sizeof(SixBits) == 16);

// Those of blocks that begin with d, dmin and three words: 4 scales, 4 minima, the lower halves of 4 more of each; the upper
// bits of these are those that the first ones leave free.
HWY_INLINE void UnpackSixBits(const uint8_t * const (&blocks)[4], SixBits (&to)[4]) {
    const DU8 d8;
    const DU32 d32;
    static constexpr uint8_t kWords[16] = {4, 5, 6, 7, 12, 13, 14, 15, 8, 9, 10, 11, 12, 13, 14, 15};
    static constexpr uint8_t kUpper[16] = {128, 128, 128, 128, 4, 5, 6, 7, 128, 128, 128, 128, 8, 9, 10, 11};
    static constexpr uint32_t kDown[4] = {0, 0, 0, 4};
    static constexpr uint32_t kBits[4] = {0x3f3f3f3f, 0x0f0f0f0f, 0x3f3f3f3f, 0x0f0f0f0f};
    constexpr size_t kBlocks = kVectorBytes / 16;
    PITH_UNROLL
    for (size_t i = 0; i < 4; i += kBlocks) {
        const VU8 starts = hn::BitCast(d8, LoadBlocks<kN>(blocks + i, 0));
        const auto words = hn::BitCast(d32, hn::TableLookupBytes(starts, hn::LoadDup128(d8, kWords)));
        const auto upper = hn::BitCast(d32, hn::TableLookupBytesOr0(starts, hn::LoadDup128(d8, kUpper)));
        const auto lower = hn::And(hn::Shr(words, hn::LoadDup128(d32, kDown)), hn::LoadDup128(d32, kBits));
        const auto whole = hn::OrAnd(lower, hn::ShiftRight<2>(upper), hn::Set(d32, 0x30303030));
        hn::StoreU(hn::BitCast(d8, whole), d8, to[i].scales);
    }
}

// Each byte of `scales` becomes the scale of its group's pairs; it has a sign where the type has no minima.
template <QuantType kType>
HWY_INLINE void PlaceScales(VU8 scales, ColumnBlock & to) {
    PITH_UNROLL
    for (size_t v = 0; v < kBlockVectors; ++v) {
        const auto placed = hn::BitCast(DI16(), hn::TableLookupBytesOr0(scales, hn::Load(DU8(), kScalePlaces<kType>.of[v])));
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

// six: where the type has minima.
template <QuantType kType>
HWY_INLINE void ReadColumn(const uint8_t * block, const SixBits & six, ColumnBlock & to) {
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
                const VU8 high = HalvesMovedDown<2>(block + B::kHigh + 32 * half);
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
        PITH_UNROLL
        for (size_t j = 0; j < kQuantBlock / 64; ++j) {  // lower halves of 32 bytes, then upper ones
            const uint8_t * bytes = block + B::kLow + 32 * j;
            if constexpr (kTwoGroups) {
                to.weights[j] = hn::And(HalvesMovedDown<4>(bytes), low_half);
            } else {
                to.weights[2 * j] = hn::And(hn::LoadU(d8, bytes), low_half);
                to.weights[2 * j + 1] = hn::And(Down<4>(hn::LoadU(d8, bytes)), low_half);
            }
        }
        if constexpr (kType == QuantType::kQ5_K) {
            VU8 high = HalvesMovedDown<1>(block + B::kHigh);
            PITH_UNROLL
            for (size_t v = 0; v < kBlockVectors; ++v) {
                if constexpr (kTwoGroups) {
                    const VU8 bits = v == 0 ? Up<4>(high) : v == 1 ? Up<2>(high) : v == 2 ? high : Down<2>(high);
                    to.weights[v] = hn::OrAnd(to.weights[v], bits, bit4);
                } else {
                    const VU8 bits = v % 2 == 0 ? Up<4>(high) : Up<3>(high);
                    to.weights[v] = hn::OrAnd(to.weights[v], bits, bit4);
                    if (v % 2 == 1) { high = Down<2>(high); }
                }
            }
        }
        PlaceScales<kType>(hn::LoadDup128(d8, six.scales), to);
    }
}

// Where kN columns have what the first one has at `first`; stride: elements.
template <class T>
HWY_INLINE ColumnPlaces PlacesOf(const T * first, size_t stride) {
    ColumnPlaces places;
    for (size_t c = 0; c < kN; ++c) { places.set(c, reinterpret_cast<const uint8_t *>(first + c * stride)); }
    return places;
}

// What is known of kColumnsAtOnce columns of up to kBlocksAtOnce blocks before floats come in, one column behind the other.
template <size_t kRows>
struct WholeSums {
    static constexpr size_t kMost = kColumnsAtOnce * kBlocksAtOnce + 4;
    alignas(64) int32_t all[kRows][kMost];
    alignas(64) int32_t less[kRows][kMost];  // what minima take off
    alignas(64) uint32_t ends[kMost];        // d, and dmin in the upper half
};

// sums += a block of a column times one of each row, along the column.
template <QuantType kType, size_t kRows>
HWY_INLINE void MultiplyBlock(const uint8_t * block, const SixBits & six, const QuantisedBlock * rows, VI (&sums)[kRows]) {
    using B = Block<kType>;
    const DI di;
    const DI16 di16;
    ColumnBlock column;
    ReadColumn<kType>(block, six, column);
    PITH_UNROLL
    for (size_t r = 0; r < kRows; ++r) {
        VI sum = hn::Zero(di);
        VI unused = hn::Zero(di);
        PITH_UNROLL
        for (size_t v = 0; v < kBlockVectors; ++v) {
            constexpr bool kSigned = kType == QuantType::kIQ4_XS;
            const VI16 pairs =
                ByteProducts<kSigned>(di16, column.weights[v], hn::LoadU(DI8(), rows[r].quants + v * kVectorBytes));
            sum = hn::ReorderWidenMulAccumulate(di, pairs, column.scales[v], sum, unused);
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

// The rows' sums of 32 for the minima of four blocks, which may begin at any of kBlocksAtOnce and go on with the first.
template <size_t kRows>
struct RowSums {
    alignas(64) int16_t of[kRows][kBlocksAtOnce + 4][8];
    RowSums(const QuantisedProduct & p, size_t first, size_t n) {
        for (size_t r = 0; r < kRows; ++r) {
            for (size_t b = 0; b < n + 4; ++b) { hwy::CopyBytes<16>(p.x[(first + b % n) * p.block_stride + r].sums, of[r][b]); }
        }
    }
};

// The first lane of each four.
alignas(64) inline constexpr int32_t kFirsts[16] = {0, 4, 8, 12, 0, 4, 8, 12, 0, 4, 8, 12, 0, 4, 8, 12};

// Minima of the four blocks from i on times the rows' sums; b: the first one's place in its column.
template <size_t kRows>
HWY_INLINE void MultiplyMins(const SixBits (&six)[4], const RowSums<kRows> & row_sums, size_t b, size_t i,
                             WholeSums<kRows> & to) {
    const DI di;
    const DI16 di16;
    const DU8 d8;
    constexpr size_t kBlocks = kVectorBytes / 16;
    PITH_UNROLL
    for (size_t r = 0; r < kRows; ++r) {
        PITH_UNROLL
        for (size_t k = 0; k < 4; k += kBlocks) {
            const auto mins = hn::BitCast(di16, hn::InterleaveUpper(d8, hn::LoadU(d8, six[k].scales), hn::Zero(d8)));
            VI sums = hn::WidenMulPairwiseAdd(di, mins, hn::LoadU(di16, row_sums.of[r][b + k]));
            sums = hn::Add(sums, hn::Shuffle2301(sums));
            sums = hn::Add(sums, hn::Shuffle1032(sums));
            const hn::CappedTag<int32_t, kBlocks> each;
            hn::StoreU(hn::ResizeBitCast(each, hn::TableLookupLanes(sums, hn::SetTableIndices(di, kFirsts))), each,
                       to.less[r] + i + k);
        }
    }
}

// The blocks [first, first + n) of kColumnsAtOnce columns, from the first one's first to the last one's last byte: that is the
// order which memory is fast in. Behind column `last`: the last again.
template <QuantType kType, size_t kRows>
HWY_INLINE void MultiplyBlocks(const QuantisedProduct & p, const uint8_t * columns, size_t last, size_t first, size_t n,
                               const RowSums<kRows> & row_sums, WholeSums<kRows> & to) {
    using B = Block<kType>;
    const hn::FixedTag<int32_t, 4> d4;
    size_t b = 0;
    size_t column = 0;
    for (size_t i = 0; i < n * kColumnsAtOnce; i += 4) {
        const size_t first_b = b;
        const uint8_t * blocks[4];
        const QuantisedBlock * rows[4];
        for (size_t k = 0; k < 4; ++k) {  // of a column, or of its end and the next one's beginning
            blocks[k] = columns + HWY_MIN(column, last) * p.weight_stride + (first + b) * B::kBytes;
            rows[k] = p.x + (first + b) * p.block_stride;
            if (++b == n) {
                b = 0;
                ++column;
            }
        }
        SixBits six[4];
        if constexpr (B::kMins) { UnpackSixBits(blocks, six); }
        VI sums[4][kRows];
        PITH_UNROLL
        for (size_t k = 0; k < 4; ++k) {
            FetchFar(blocks[k], B::kBytes);
            FetchNear(blocks[k], B::kBytes);
            MultiplyBlock<kType>(blocks[k], six[k], rows[k], sums[k]);
        }
        PITH_UNROLL
        for (size_t r = 0; r < kRows; ++r) {
            hn::Store(SumsOf4(sums[0][r], sums[1][r], sums[2][r], sums[3][r]), d4, to.all[r] + i);
        }
        for (size_t k = 0; k < 4; ++k) { hwy::CopyBytes<B::kMins ? 4 : 2>(blocks[k] + B::kD, &to.ends[i + k]); }
        if constexpr (B::kMins) { MultiplyMins(six, row_sums, first_b, i, to); }
    }
}

// sums += those of m blocks of each column, at most four, from b on, times their scales; n: blocks of a column in `whole`,
// which are p's from `first` on.
template <QuantType kType, size_t kRows, class Count>
HWY_INLINE void AddBlocks(const WholeSums<kRows> & whole, size_t b, size_t n, Count m, const QuantisedProduct & p, size_t first,
                          VF (&sums)[kRows]) {
    const DF df;
    VI ends[4];
    LoadWords(PlacesOf(whole.ends + b, n), 0, ends);
    PITH_UNROLL
    for (size_t r = 0; r < kRows; ++r) {
        VI all[4];
        VI less[4];
        LoadWords(PlacesOf(whole.all[r] + b, n), 0, all);
        if constexpr (Block<kType>::kMins) { LoadWords(PlacesOf(whole.less[r] + b, n), 0, less); }
        PITH_UNROLL
        for (size_t k = 0; k < size_t{m}; ++k) {
            VF y = hn::Mul(hn::ConvertTo(df, all[k]), HalfOf(ends[k]));
            if constexpr (Block<kType>::kMins) {
                y = hn::NegMulAdd(hn::ConvertTo(df, less[k]), HalfOf(hn::ShiftRight<16>(ends[k])), y);
            }
            sums[r] = hn::MulAdd(y, hn::Set(df, p.x[(first + b + k) * p.block_stride + r].scale), sums[r]);
        }
    }
}

// out [kRows][out_stride] of n_columns columns from `first` on, at most kColumnsAtOnce of them.
template <QuantType kType, size_t kRows>
HWY_NOINLINE void MultiplyFewRows(const QuantisedProduct & p, size_t first, size_t n_columns) {
    const DF df;
    const size_t n_blocks = p.n_in / kQuantBlock;
    WholeSums<kRows> whole;
    VF sums[kRows];
    for (size_t r = 0; r < kRows; ++r) { sums[r] = hn::Zero(df); }
    for (size_t from = 0; from < n_blocks; from += kBlocksAtOnce) {
        const size_t n = HWY_MIN(kBlocksAtOnce, n_blocks - from);
        const RowSums<kRows> row_sums(p, from, n);
        MultiplyBlocks<kType>(p, p.weights + first * p.weight_stride, n_columns - 1, from, n, row_sums, whole);
        for (size_t b = 0; b < n; b += 4) {
            if (n - b >= 4) {
                AddBlocks<kType, kRows>(whole, b, n, std::integral_constant<size_t, 4>(), p, from, sums);
            } else {
                AddBlocks<kType, kRows>(whole, b, n, n - b, p, from, sums);
            }
        }
    }
    for (size_t r = 0; r < kRows; ++r) { hn::StoreN(sums[r], df, p.out_row(r) + first, n_columns); }
}

#endif

}  // namespace pith::PITH_KERNELS
HWY_AFTER_NAMESPACE();
#endif
