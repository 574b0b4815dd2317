// quantised_panel-inl.h - weights of the file become a panel: columns side by side, a byte a weight. Included once per
// instruction set. Stage: matmul. Source: ggml's block_q4_K, block_q5_K, block_q6_K.
#if defined(PITH_QUANTISED_PANEL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PITH_QUANTISED_PANEL_INL_H_
#undef PITH_QUANTISED_PANEL_INL_H_
#else
#define PITH_QUANTISED_PANEL_INL_H_
#endif

#include "device/cpu_vectors-inl.h"
#include "matmul/quantised_values-inl.h"

HWY_BEFORE_NAMESPACE();
namespace pith::PITH_KERNELS {

using DU32 = hn::RebindToUnsigned<DI>;

// For GCC: a value that is used several times is loaded once.
#undef PITH_ONE_LOAD
#if HWY_ARCH_X86 && HWY_COMPILER_GCC_ACTUAL
#define PITH_ONE_LOAD(v) __asm__("" : "+v"((v).raw))
#else
#define PITH_ONE_LOAD(v)
#endif

// One instruction takes the place of two or three, and waits for its sum: more of them go on side by side.
#if defined(PITH_AVX_VNNI)
inline constexpr bool kManySums = true;
#else
inline constexpr bool kManySums = kManyRegisters;
#endif
inline constexpr size_t kPanelVectors = kManySums ? 2 : 1;
inline constexpr size_t kPanelColumns = kPanelVectors * kN;
inline constexpr size_t kPanelSteps = kQuantBlock / 4;

// Bytes of a block of 256 weights, and where its parts are.
template <QuantType kType>
struct Block;
template <>
struct Block<QuantType::kQ4_K> {
    static constexpr size_t kBytes = 144, kD = 0, kLow = 16;
    static constexpr size_t kSteps = 8;  // of 4 weights in a group of one scale
    static constexpr size_t kPairs = 8;  // steps whose pairs of products fit 16 bits together: 8 · 2 · 15 · 127
    static constexpr bool kMins = true;
};
template <>
struct Block<QuantType::kQ5_K> {
    static constexpr size_t kBytes = 176, kD = 0, kHigh = 16, kLow = 48;
    static constexpr size_t kSteps = 8;
    static constexpr size_t kPairs = 4;  // 4 · 2 · 31 · 127
    static constexpr bool kMins = true;
};
template <>
struct Block<QuantType::kQ6_K> {
    static constexpr size_t kBytes = 210, kHigh = 128, kScales = 192, kD = 208;
    static constexpr size_t kSteps = 4;
    static constexpr size_t kPairs = 2;  // 2 · 2 · 63 · 127
    static constexpr bool kMins = false;
};
template <>
struct Block<QuantType::kIQ4_XS> {
    static constexpr size_t kBytes = 136, kLow = 8, kD = 0;
    static constexpr size_t kSteps = 8;
    static constexpr size_t kPairs = 1;
    static constexpr bool kMins = false;
    static constexpr int kOffset = kHasByteDots ? 128 : 0;  // 0: bytes with a sign
};
template <QuantType kType>
inline constexpr bool kHasSign =
    !kHasByteDots && (kType == QuantType::kIQ4_XS || kType == QuantType::kIQ4_NL || kType == QuantType::kQ8_0);

// One block of kPanelColumns columns.
struct BlockPanel {
    alignas(64) uint8_t quants[kPanelSteps][kPanelColumns][4];
    alignas(64) int32_t scales[16][kPanelColumns];  // of the groups
    alignas(64) int32_t mins[4][kPanelColumns];     // of groups 2p and 2p + 1, as pairs of int16
    alignas(64) float d[kPanelColumns];
    alignas(64) float dmin[kPanelColumns];
};

// Columns are read block by block, many at once, but lie in memory one behind the other: in that order the next ones are asked
// for while these are multiplied, a share with each block.
struct NextColumns {
    const uint8_t * begin = nullptr;
    size_t n_lines = 0;
    NextColumns(const QuantisedProduct & p, size_t first, size_t n) : begin(p.weights + first * p.weight_stride) {
        n_lines = n * p.weight_stride / 64;
    }
    HWY_INLINE void fetch(size_t block, size_t n_blocks) const {
        const size_t end = n_lines * (block + 1) / n_blocks;
        for (size_t i = n_lines * block / n_blocks; i < end; ++i) {
#if HWY_COMPILER_GCC || HWY_COMPILER_CLANG
            __builtin_prefetch(begin + 64 * i, 0, 2);  // not into the nearest cache: they would push these out
#endif
        }
    }
};

// Where kN columns are read: column c at [c % 4 · kN / 4 + c / 4], so that a vector has a block of each fourth column.
struct ColumnPlaces {
    const uint8_t * at[kN];
    void set(size_t column, const uint8_t * where) { at[column % 4 * (kN / 4) + column / 4] = where; }
    const uint8_t * of(size_t column) const { return at[column % 4 * (kN / 4) + column / 4]; }
};

// 16 bytes at `offset` of each of kLanes / 4 places.
template <size_t kLanes>
HWY_INLINE hn::Vec<hn::CappedTag<int32_t, kLanes>> LoadBlocks(const uint8_t * const * places, size_t offset) {
    const hn::CappedTag<int32_t, kLanes> d;
    if constexpr (kLanes == 4) {
        return hn::LoadU(d, reinterpret_cast<const int32_t *>(places[0] + offset));
    } else {
        constexpr size_t kHalf = kLanes / 2;
        return hn::Combine(d, LoadBlocks<kHalf>(places + kHalf / 4, offset), LoadBlocks<kHalf>(places, offset));
    }
}

// Word w of the 16 bytes at `offset` of column c becomes lane c of words[w].
HWY_INLINE void LoadWords(const ColumnPlaces & columns, size_t offset, VI * words) {
    const DI d;
    const hn::RepartitionToWide<DI> d64;
    const auto wide = [&](VI v) HWY_ATTR { return hn::BitCast(d64, v); };
    VI quads[4];
    PITH_UNROLL
    for (size_t i = 0; i < 4; ++i) { quads[i] = LoadBlocks<kN>(columns.at + i * (kN / 4), offset); }
    const auto low01 = wide(hn::InterleaveLower(d, quads[0], quads[1]));
    const auto high01 = wide(hn::InterleaveUpper(d, quads[0], quads[1]));
    const auto low23 = wide(hn::InterleaveLower(d, quads[2], quads[3]));
    const auto high23 = wide(hn::InterleaveUpper(d, quads[2], quads[3]));
    words[0] = hn::BitCast(d, hn::InterleaveLower(d64, low01, low23));
    words[1] = hn::BitCast(d, hn::InterleaveUpper(d64, low01, low23));
    words[2] = hn::BitCast(d, hn::InterleaveLower(d64, high01, high23));
    words[3] = hn::BitCast(d, hn::InterleaveUpper(d64, high01, high23));
}

// These bits of each byte, moved down by kShift first; kMask: of a byte.
template <int kShift, uint8_t kMask>
HWY_INLINE VI BitsOf(VI v) {
    const DI d;
    const DU8 d8;
    return hn::And(hn::BitCast(d, hn::Set(d8, kMask)),
                   kShift == 0 ? v : hn::BitCast(d, hn::ShiftRight<kShift>(hn::BitCast(DU32(), v))));
}
HWY_INLINE VI ByteOf(VI v, int byte) {
    return hn::And(hn::Set(DI(), 255), hn::ShiftRightSame(v, 8 * byte));
}
// kN floats of 16 bits.
HWY_INLINE VF HalvesOf(const uint16_t * halves) {
    const hn::Rebind<hwy::float16_t, DF> d16;
    return hn::PromoteTo(DF(), hn::BitCast(d16, hn::LoadU(hn::Rebind<uint16_t, DF>(), halves)));
}
HWY_INLINE VF HalfOf(VI v) {  // the lower 16 bits of each lane, a float of 16 bits
    const hn::Rebind<uint16_t, DI> d16;
    const hn::Rebind<hwy::float16_t, DF> df16;
    return hn::PromoteTo(DF(), hn::BitCast(df16, hn::TruncateTo(d16, hn::BitCast(DU32(), v))));
}

// d, dmin, and 8 scales and minima of 6 bits, at the beginning of a block of Q4_K and Q5_K.
HWY_INLINE void UnpackScales(const ColumnPlaces & columns, size_t c, BlockPanel & to) {
    const DI d;
    VI head[4];
    LoadWords(columns, 0, head);
    hn::Store(HalfOf(head[0]), DF(), to.d + c);
    hn::Store(HalfOf(hn::ShiftRight<16>(head[0])), DF(), to.dmin + c);
    const VI scales[2] = {BitsOf<0, 63>(head[1]), hn::Or(BitsOf<0, 15>(head[3]), hn::ShiftLeft<4>(BitsOf<6, 3>(head[1])))};
    const VI mins[2] = {BitsOf<0, 63>(head[2]), hn::Or(BitsOf<4, 15>(head[3]), hn::ShiftLeft<4>(BitsOf<6, 3>(head[2])))};
    for (int g = 0; g < 8; ++g) { hn::Store(ByteOf(scales[g / 4], g % 4), d, to.scales[g] + c); }
    for (int p = 0; p < 4; ++p) {
        const VI first = ByteOf(mins[p / 2], p % 2 * 2);
        const VI second = ByteOf(mins[p / 2], p % 2 * 2 + 1);
        hn::Store(hn::Or(first, hn::ShiftLeft<16>(second)), d, to.mins[p] + c);
    }
}

template <class AnyPanel>
HWY_INLINE void StoreStep(VI words, size_t step, size_t c, AnyPanel & to) {
    hn::Store(words, DI(), reinterpret_cast<int32_t *>(to.quants[step][c]));
}
// 32 weights of four bits in 16 bytes, the first 16 in the lower halves: their numbers, or what these stand for.
template <QuantType kType, int kOffset, class AnyPanel>
HWY_INLINE void StoreGroup(const VI * words, size_t step, size_t c, AnyPanel & to) {
    const auto values = [](VI numbers) HWY_ATTR {
        if constexpr (has_value_table(kType)) {
            return hn::BitCast(DI(), LookUpValues<kType, kOffset>(hn::BitCast(DU8(), numbers)));
        } else {
            return numbers;
        }
    };
    PITH_UNROLL
    for (size_t i = 0; i < 4; ++i) {
        StoreStep(values(BitsOf<0, 15>(words[i])), step + i, c, to);
        StoreStep(values(BitsOf<4, 15>(words[i])), step + 4 + i, c, to);
    }
}

HWY_INLINE void UnpackSteps16(const ColumnPlaces & columns, size_t c, BlockPanel & to) {
    using B = Block<QuantType::kIQ4_XS>;
    const DI d;
    VI head[4];  // d and two bits of each scale; four of each
    LoadWords(columns, 0, head);
    hn::Store(HalfOf(head[0]), DF(), to.d + c);
    for (int g = 0; g < 8; ++g) {
        const VI low = hn::And(hn::ShiftRightSame(head[1], 4 * g), hn::Set(d, 15));
        const VI high = hn::And(hn::ShiftRightSame(head[0], 16 + 2 * g), hn::Set(d, 3));
        hn::Store(hn::Sub(hn::Or(low, hn::ShiftLeft<4>(high)), hn::Set(d, 32)), d, to.scales[g] + c);
    }
    for (size_t g = 0; g < 8; ++g) {
        VI words[4];
        LoadWords(columns, B::kLow + 16 * g, words);
        StoreGroup<QuantType::kIQ4_XS, B::kOffset>(words, B::kSteps * g, c, to);
    }
}

// Unpacks the blocks that `columns` point at into kN columns of the panel, from c on.
template <QuantType kType>
HWY_INLINE void UnpackColumns(const ColumnPlaces & columns, size_t c, BlockPanel & to) {
    using B = Block<kType>;
    if constexpr (kType == QuantType::kIQ4_XS) {
        UnpackSteps16(columns, c, to);
    } else if constexpr (kType == QuantType::kQ6_K) {
        VI high[16];
        for (size_t i = 0; i < 4; ++i) { LoadWords(columns, B::kHigh + 16 * i, high + 4 * i); }
        for (size_t half = 0; half < 2; ++half) {  // of 128 weights
            VI low[16];
            for (size_t i = 0; i < 4; ++i) { LoadWords(columns, 64 * half + 16 * i, low + 4 * i); }
            PITH_UNROLL
            for (size_t i = 0; i < 8; ++i) {
                const VI top = high[8 * half + i];
                const size_t step = 32 * half + i;
                StoreStep(hn::Or(BitsOf<0, 15>(low[i]), hn::ShiftLeft<4>(BitsOf<0, 3>(top))), step, c, to);
                StoreStep(hn::Or(BitsOf<0, 15>(low[8 + i]), hn::ShiftLeft<4>(BitsOf<2, 3>(top))), step + 8, c, to);
                StoreStep(hn::Or(BitsOf<4, 15>(low[i]), hn::ShiftLeft<4>(BitsOf<4, 3>(top))), step + 16, c, to);
                StoreStep(hn::Or(BitsOf<4, 15>(low[8 + i]), hn::ShiftLeft<4>(BitsOf<6, 3>(top))), step + 24, c, to);
            }
        }
        VI scales[4];
        LoadWords(columns, B::kScales, scales);
        for (int g = 0; g < 16; ++g) {
            const VI up = hn::ShiftLeftSame(scales[g / 4], 24 - 8 * (g % 4));
            hn::Store(hn::ShiftRight<24>(up), DI(), to.scales[g] + c);
        }
        alignas(64) uint16_t halves[kN];
        for (size_t i = 0; i < kN; ++i) { hwy::CopyBytes<2>(columns.of(i) + B::kD, &halves[i]); }
        hn::Store(HalvesOf(halves), DF(), to.d + c);
    } else {
        UnpackScales(columns, c, to);
        VI high[8];  // Q5_K: bit 2 j and 2 j + 1 of a byte belong to the weights of the j-th 64
        if constexpr (kType == QuantType::kQ5_K) {
            LoadWords(columns, B::kHigh, high);
            LoadWords(columns, B::kHigh + 16, high + 4);
        }
        for (size_t j = 0; j < 4; ++j) {  // 64 weights: 32 in the lower halves of 32 bytes, 32 in the upper ones
            VI low[8];
            LoadWords(columns, B::kLow + 32 * j, low);
            LoadWords(columns, B::kLow + 32 * j + 16, low + 4);
            PITH_UNROLL
            for (size_t i = 0; i < 8; ++i) {
                VI first = BitsOf<0, 15>(low[i]);
                VI second = BitsOf<4, 15>(low[i]);
                if constexpr (kType == QuantType::kQ5_K) {
                    first = hn::Or(first, hn::ShiftLeft<4>(BitsOf<0, 1>(high[i])));
                    second = hn::Or(second, hn::ShiftLeft<4>(BitsOf<1, 1>(high[i])));
                    high[i] = hn::ShiftRight<2>(high[i]);
                }
                StoreStep(first, 16 * j + i, c, to);
                StoreStep(second, 16 * j + 8 + i, c, to);
            }
        }
    }
}

// Where the k-th quad behind `step` is among a row's quants.
HWY_INLINE size_t PlaceOfQuad(const QuantisedBlock &, size_t step, size_t k) {
    return 4 * (step + k);
}
HWY_INLINE size_t PlaceOfQuad(const QuantisedGroups &, size_t step, size_t k) {  // of a group that begins at `step`
    return place_in_groups(step / 8, 0) + place_in_groups(0, 4 * k);
}

// sums [kRows][kPanelVectors] += the rows' quads with kSteps steps of the panel from `step` on. kPairs: how many of them have
// products whose pairs fit 16 bits together.
template <size_t kSteps, size_t kPairs, bool kSigned, size_t kRows, class Row>
HWY_INLINE void AddSteps(const uint8_t (&quants)[kPanelSteps][kPanelColumns][4], size_t step, const Row * rows,
                         VI (&sums)[kRows][kPanelVectors]) {
    const DI di;
    const DI16 di16;
    const hn::Repartition<int8_t, DI> di8;
    const auto quad = [&](size_t r, size_t first, size_t k) HWY_ATTR {  // the k-th behind the quad that lies at `first`
        int32_t four = 0;
        hwy::CopyBytes<4>(rows[r].quants + first + PlaceOfQuad(rows[r], 0, k), &four);
        return hn::BitCast(di8, hn::Set(di, four));
    };
    const auto weights = [&](size_t k, size_t v) HWY_ATTR {
        return hn::BitCast(DU8(), hn::Load(di, reinterpret_cast<const int32_t *>(quants[step + k][v * kN])));
    };
    if constexpr (kHasByteDots) {
        const size_t first = PlaceOfQuad(*rows, step, 0);
        PITH_UNROLL
        for (size_t k = 0; k < kSteps; ++k) {
            hn::Vec<DU8> w[kPanelVectors];
            PITH_UNROLL
            for (size_t v = 0; v < kPanelVectors; ++v) { w[v] = weights(k, v); }
            PITH_UNROLL
            for (size_t r = 0; r < kRows; ++r) {
                auto x = quad(r, first, k);
                PITH_ONE_LOAD(x);
                PITH_UNROLL
                for (size_t v = 0; v < kPanelVectors; ++v) { sums[r][v] = AddByteDots(di, w[v], x, sums[r][v]); }
            }
        }
    } else {
        PITH_UNROLL
        for (size_t k = 0; k < kSteps; k += kPairs) {
            const size_t first = PlaceOfQuad(*rows, step, k);
            hn::Vec<DI16> pairs[kRows][kPanelVectors];
            PITH_UNROLL
            for (size_t p = 0; p < kPairs; ++p) {
                PITH_UNROLL
                for (size_t v = 0; v < kPanelVectors; ++v) {
                    const auto w = weights(k + p, v);
                    PITH_UNROLL
                    for (size_t r = 0; r < kRows; ++r) {
                        const auto product = ByteProducts<kSigned>(di16, w, quad(r, first, p));
                        pairs[r][v] = p == 0 ? product : hn::Add(pairs[r][v], product);
                    }
                }
            }
            PITH_UNROLL
            for (size_t r = 0; r < kRows; ++r) {
                PITH_UNROLL
                for (size_t v = 0; v < kPanelVectors; ++v) {
                    sums[r][v] = hn::Add(sums[r][v], hn::WidenMulPairwiseAdd(di, pairs[r][v], hn::Set(di16, int16_t{1})));
                }
            }
        }
    }
}

}  // namespace pith::PITH_KERNELS
HWY_AFTER_NAMESPACE();
#endif
