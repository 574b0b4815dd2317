// cpu_dot_integer-inl.h - few rows (decode) over q8_0 and q4_0 where the processor multiplies bytes and words into 32-bit sums
// (AVX-512 VNNI): stored codes meet queries and weights as whole numbers, and their scales meet the sums of a block.
// Included once per instruction set. Stage: attention.
//
// Keys: lane = entry. Queries are rounded to 16 bits a block of 32 (their high and low bytes are products of their own), the
// codes of 16 entries are transposed into quads of columns, and a sum needs no folding.
// Values: lane = column. Weights times an entry's scale are rounded to 16 bits a block of kEntryBlock entries, and meet pairs
// of entries.
// Error: a query's number is off by up to 2e-5 of the largest of its block, a weight by as much of the largest of its block.
#if defined(PITH_CPU_DOT_INTEGER_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PITH_CPU_DOT_INTEGER_INL_H_
#undef PITH_CPU_DOT_INTEGER_INL_H_
#else
#define PITH_CPU_DOT_INTEGER_INL_H_
#endif

#include "attention/cpu/cpu_ahead.h"
#include "attention/cpu/cpu_whole-inl.h"

HWY_BEFORE_NAMESPACE();
namespace pith::HWY_NAMESPACE {

inline constexpr size_t kCodes = 32;  // of a block, behind its f16 scale

// Queries as whole numbers, block after block of columns: q = scale (256 high + low).
//   quads   [blocks][rows][8][2][4] bytes: four columns' high ones, then their low ones
//   scale   [blocks][rows]
//   offset  [blocks][rows]  what the codes' zero adds to a product
struct IntegerRows {
    static constexpr size_t kQuads = 2 * kCodes;  // bytes of a row's block
    size_t n_rows = 0;
    int8_t * quads = nullptr;
    float * scale = nullptr;
    int32_t * offset = nullptr;

    IntegerRows(float * memory, size_t rows, size_t head_dim)
        : n_rows(rows),
          quads(reinterpret_cast<int8_t *>(memory)),
          scale(reinterpret_cast<float *>(quads + rows * (head_dim / kCodes) * kQuads)),
          offset(reinterpret_cast<int32_t *>(scale + rows * (head_dim / kCodes))) {}
};

#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3_DL
using Words = hn::Vec<hn::FixedTag<int16_t, 32>>;

// sums += bytes of `codes` (unsigned) times those of `factor`, a lane's four together.
HWY_INLINE VI AddQuads(VI sums, VI codes, const int8_t * factor) {
    int32_t quad;
    hwy::CopyBytes<sizeof(quad)>(factor, &quad);
    return VI{_mm512_dpbusd_epi32(sums.raw, codes.raw, _mm512_set1_epi32(quad))};
}
// sums += pairs of words.
HWY_INLINE VI AddPairs(VI sums, Words values, const int16_t * factor) {
    int32_t pair;
    hwy::CopyBytes<sizeof(pair)>(factor, &pair);
    return VI{_mm512_dpwssd_epi32(sums.raw, values.raw, _mm512_set1_epi32(pair))};
}

// 16 bytes of 16 entries as 4 vectors: [i] holds bytes 4 i to 4 i + 3 of every entry.
HWY_INLINE void TransposeQuads(const uint8_t * const (&entries)[16], size_t at, VI (&quads)[4]) {
    __m512i parts[4];  // [i]: entries i, i + 4, i + 8, i + 12
    for (size_t i = 0; i < 4; ++i) {
        const auto load = [&](size_t e)
                              HWY_ATTR { return _mm_loadu_si128(reinterpret_cast<const __m128i *>(entries[e] + at)); };
        parts[i] = _mm512_castsi128_si512(load(i));
        parts[i] = _mm512_inserti32x4(parts[i], load(i + 4), 1);
        parts[i] = _mm512_inserti32x4(parts[i], load(i + 8), 2);
        parts[i] = _mm512_inserti32x4(parts[i], load(i + 12), 3);
    }
    const __m512i low01 = _mm512_unpacklo_epi32(parts[0], parts[1]);
    const __m512i low23 = _mm512_unpacklo_epi32(parts[2], parts[3]);
    const __m512i high01 = _mm512_unpackhi_epi32(parts[0], parts[1]);
    const __m512i high23 = _mm512_unpackhi_epi32(parts[2], parts[3]);
    quads[0] = VI{_mm512_unpacklo_epi64(low01, low23)};
    quads[1] = VI{_mm512_unpackhi_epi64(low01, low23)};
    quads[2] = VI{_mm512_unpacklo_epi64(high01, high23)};
    quads[3] = VI{_mm512_unpackhi_epi64(high01, high23)};
}

// Codes of a block: Quads() of 16 entries, unsigned, kZero stands for 0; Pairs() of two entries as words, kZeroOfPairs stands
// for 0, in two vectors of 16 columns each; Columns() puts their sums into order.
struct CodesQ8_0 {
    static constexpr size_t kBytes = 34;
    static constexpr int32_t kZero = 128;  // of Quads
    static constexpr int32_t kZeroOfPairs = 0;
    static HWY_INLINE void Quads(const uint8_t * const (&entries)[16], size_t at, VI (&quads)[8]) {
        for (size_t half = 0; half < 2; ++half) {
            VI four[4];
            TransposeQuads(entries, at + 16 * half, four);
            for (size_t i = 0; i < 4; ++i) {
                quads[4 * half + i] = hn::Xor(four[i], hn::Set(DI(), static_cast<int32_t>(0x80808080U)));
            }
        }
    }
    static HWY_INLINE void Pairs(const uint8_t * a, const uint8_t * b, Words (&pairs)[2]) {
        const hn::FixedTag<int8_t, 32> d8;
        const hn::FixedTag<int16_t, 32> d16;
        const auto first = hn::LoadU(d8, reinterpret_cast<const int8_t *>(a));
        const auto second = hn::LoadU(d8, reinterpret_cast<const int8_t *>(b));
        pairs[0] = hn::PromoteTo(d16, hn::InterleaveLower(d8, first, second));
        pairs[1] = hn::PromoteTo(d16, hn::InterleaveUpper(d8, first, second));
    }
    static HWY_INLINE void Columns(VI (&sums)[2]) {
        const auto low = hn::ConcatLowerLower(DI(), sums[1], sums[0]);
        sums[1] = hn::ConcatUpperUpper(DI(), sums[1], sums[0]);
        sums[0] = low;
    }
};

struct CodesQ4_0 {
    static constexpr size_t kBytes = 18;
    static constexpr int32_t kZero = 8;
    static constexpr int32_t kZeroOfPairs = 8;
    static HWY_INLINE void Quads(const uint8_t * const (&entries)[16], size_t at, VI (&quads)[8]) {
        VI four[4];
        TransposeQuads(entries, at, four);
        const auto half = hn::Set(DI(), 0x0F0F0F0F);
        for (size_t i = 0; i < 4; ++i) {
            quads[i] = hn::And(four[i], half);
            quads[4 + i] = hn::And(hn::ShiftRight<4>(four[i]), half);
        }
    }
    static HWY_INLINE void Pairs(const uint8_t * a, const uint8_t * b, Words (&pairs)[2]) {
        const hn::FixedTag<uint8_t, 16> d8;
        const hn::FixedTag<uint8_t, 32> both;
        const hn::FixedTag<int16_t, 32> d16;
        const auto first = hn::LoadU(d8, a);
        const auto second = hn::LoadU(d8, b);
        const auto words =
            hn::PromoteTo(d16, hn::Combine(both, hn::InterleaveUpper(d8, first, second), hn::InterleaveLower(first, second)));
        pairs[0] = hn::And(words, hn::Set(d16, 15));
        pairs[1] = hn::ShiftRight<4>(words);
    }
    static HWY_INLINE void Columns(VI (&)[2]) {}
};

// A block's scales of n entries; 0 behind them.
HWY_INLINE void LoadScales(const uint8_t * rows, size_t stride, size_t n, float * HWY_RESTRICT scales) {
    const DF df;
    const hn::Rebind<hwy::float16_t, DF> d16;
    HWY_ALIGN uint16_t bits[kEntryBlock];
    if (n < kEntryBlock) { hwy::ZeroBytes<sizeof(bits)>(bits); }
    for (size_t j = 0; j < n; ++j) {
        uint16_t one;
        hwy::CopyBytes<sizeof(one)>(rows + j * stride, &one);
        hwy::PreventElision(one);  // compilers gather words one by one into vectors otherwise
        bits[j] = one;
    }
    for (size_t i = 0; i < kEntryBlock; i += kN) {
        hn::StoreU(hn::PromoteTo(df, hn::LoadU(d16, reinterpret_cast<const hwy::float16_t *>(bits + i))), df, scales + i);
    }
}

// q: [rows][head_dim].
template <class Codes>
void MakeIntegerRows(const float * HWY_RESTRICT q, size_t head_dim, const IntegerRows & rows) {
    const DF df;
    const hn::Rebind<int8_t, DF> d8;
    const hn::Repartition<int32_t, decltype(d8)> d32;
    constexpr float kMost = 127 * 256 + 127;
    for (size_t r = 0; r < rows.n_rows; ++r) {
        for (size_t b = 0; b < head_dim / kCodes; ++b) {
            const float * block = q + r * head_dim + b * kCodes;
            const size_t at = b * rows.n_rows + r;
            const VF numbers[2] = {hn::LoadU(df, block), hn::LoadU(df, block + kN)};
            const float largest = LargestOf(LargerSize(LargerSize(hn::Zero(DI()), numbers[0]), numbers[1]));
            const auto factor = FactorTo(kMost, largest);
            auto sum = hn::Zero(DI());
            for (size_t i = 0; i < 2; ++i) {
                const auto whole = Nearest(hn::Mul(numbers[i], factor));
                const auto low = hn::ShiftRight<24>(hn::ShiftLeft<24>(whole));
                const auto high = hn::ShiftRight<8>(hn::Sub(whole, low));
                const auto highs = hn::BitCast(d32, hn::DemoteTo(d8, high));
                const auto lows = hn::BitCast(d32, hn::DemoteTo(d8, low));
                auto * to = reinterpret_cast<int32_t *>(rows.quads + at * IntegerRows::kQuads + i * IntegerRows::kQuads / 2);
                hn::StoreU(hn::InterleaveLower(d32, highs, lows), d32, to);
                hn::StoreU(hn::InterleaveUpper(d32, highs, lows), d32, to + 4);
                sum = hn::Add(sum, whole);
            }
            rows.scale[at] = largest / kMost;
            rows.offset[at] = hn::ReduceSum(DI(), hn::Mul(sum, hn::Set(DI(), Codes::kZero)));
        }
    }
}

// scores[r][j] (+)= q[r] . k[j] of a block of columns, for rows [row, row + kRows) and n entries (and for the rest of a vector
// some numbers).
template <bool kFirst, class Codes, size_t kRows>
HWY_INLINE void ScoreBlock(const IntegerRows & q, size_t row, size_t b, const uint8_t * HWY_RESTRICT k, size_t stride, size_t n,
                           const Ahead & ahead, float * HWY_RESTRICT scores) {
    const DF df;
    HWY_ALIGN float scales[kEntryBlock];
    LoadScales(k, stride, n, scales);
    const size_t at = b * q.n_rows + row;
    const int8_t * HWY_RESTRICT factors = q.quads + at * IntegerRows::kQuads;
    for (size_t j = 0; j < n; j += kN) {
        ahead.fetch(j, kN);
        const uint8_t * entries[16];
        for (size_t e = 0; e < 16; ++e) { entries[e] = k + (j + e) * stride; }
        if (j + 16 > n) {
            for (size_t e = 1; e < 16; ++e) { entries[e] = k + HWY_MIN(j + e, n - 1) * stride; }
        }
        VI quads[8];
        Codes::Quads(entries, 2, quads);
        VI high[kRows];
        VI low[kRows];
        PITH_UNROLL
        for (size_t r = 0; r < kRows; ++r) { high[r] = low[r] = hn::Zero(DI()); }
        PITH_UNROLL
        for (size_t i = 0; i < 8; ++i) {  // row after row: a sum waits for the one before
            PITH_UNROLL
            for (size_t r = 0; r < kRows; ++r) {
                const int8_t * factor = factors + r * IntegerRows::kQuads + 8 * i;
                high[r] = AddQuads(high[r], quads[i], factor);
                low[r] = AddQuads(low[r], quads[i], factor + 4);
            }
        }
        const auto scale = hn::Load(df, scales + j);
        PITH_UNROLL
        for (size_t r = 0; r < kRows; ++r) {
            const auto sum = hn::Sub(hn::Add(hn::ShiftLeft<8>(high[r]), low[r]), hn::Set(DI(), q.offset[at + r]));
            const auto product = hn::Mul(hn::ConvertTo(df, sum), hn::Set(df, q.scale[at + r]));
            float * to = scores + r * kEntryBlock + j;
            hn::StoreU(kFirst ? hn::Mul(product, scale) : hn::MulAdd(product, scale, hn::LoadU(df, to)), df, to);
        }
    }
}

template <class Codes, size_t kRows>
void ScoreIntegers(const IntegerRows & q, size_t row, size_t head_dim, const uint8_t * HWY_RESTRICT k, size_t stride, size_t n,
                   const Ahead & ahead, float * HWY_RESTRICT scores) {
    const size_t n_blocks = head_dim / kCodes;
    ScoreBlock<true, Codes, kRows>(q, row, 0, k, stride, n, ahead.part(0, n_blocks), scores);
    for (size_t b = 1; b < n_blocks; ++b) {
        ScoreBlock<false, Codes, kRows>(q, row, b, k + b * Codes::kBytes, stride, n, ahead.part(b, n_blocks), scores);
    }
}

// Weights p[r][j] times scales, of n entries, as words of a unit a row; 0 behind them. kZero: the code of 0.
template <int32_t kZero, size_t kRows>
struct IntegerWeights {
    HWY_ALIGN int16_t words[kRows][kEntryBlock];
    float unit[kRows];
    int32_t zero[kRows];  // what sums start from

    HWY_INLINE void Make(const float * HWY_RESTRICT p, const float * HWY_RESTRICT scales, size_t n) {
        const DF df;
        const hn::Rebind<int16_t, DF> d16;
        constexpr float kMost = 32767;
        for (size_t r = 0; r < kRows; ++r) {
            VF products[kEntryBlock / kN];
            auto most = hn::Zero(DI());
            for (size_t i = 0; i < kEntryBlock / kN; ++i) {
                const auto used = hn::FirstN(df, n - HWY_MIN(n, i * kN));
                const auto weight = hn::IfThenElseZero(used, hn::LoadU(df, p + r * kEntryBlock + i * kN));
                products[i] = hn::Mul(weight, hn::Load(df, scales + i * kN));
                most = LargerSize(most, products[i]);
            }
            const float largest = LargestOf(most);
            const auto by = FactorTo(kMost, largest);
            auto total = hn::Zero(DI());
            for (size_t i = 0; i < kEntryBlock / kN; ++i) {
                const auto whole = Nearest(hn::Mul(products[i], by));
                total = hn::Add(total, whole);
                hn::StoreU(hn::DemoteTo(d16, whole), d16, words[r] + i * kN);
            }
            unit[r] = largest / kMost;
            zero[r] = kZero == 0 ? 0 : hn::ReduceSum(DI(), hn::Mul(total, hn::Set(DI(), -kZero)));
        }
    }
};

// values[r] = factor[r] values[r] + sum over n entries of p[r][j] v[j].
template <class Codes, size_t kRows>
void AddIntegers(const float * HWY_RESTRICT p, const float * HWY_RESTRICT factor, const uint8_t * HWY_RESTRICT v, size_t stride,
                 size_t n, const Ahead & ahead, float * HWY_RESTRICT values, size_t head_dim) {
    const DF df;
    const size_t n_blocks = head_dim / kCodes;
    for (size_t b = 0; b < n_blocks; ++b) {
        const Ahead part = ahead.part(b, n_blocks);
        HWY_ALIGN float scales[kEntryBlock];
        LoadScales(v + b * Codes::kBytes, stride, n, scales);
        IntegerWeights<Codes::kZeroOfPairs, kRows> weights;
        weights.Make(p, scales, n);
        VI sums[kRows][2];
        PITH_UNROLL
        for (size_t r = 0; r < kRows; ++r) { sums[r][0] = sums[r][1] = hn::Set(DI(), weights.zero[r]); }
        const auto add_pair = [&](size_t j, const uint8_t * first, const uint8_t * second) HWY_ATTR {
            Words pairs[2];
            Codes::Pairs(first, second, pairs);
            PITH_UNROLL
            for (size_t r = 0; r < kRows; ++r) {
                sums[r][0] = AddPairs(sums[r][0], pairs[0], weights.words[r] + j);
                sums[r][1] = AddPairs(sums[r][1], pairs[1], weights.words[r] + j);
            }
        };
        constexpr size_t kTurn = 8;  // entries
        const uint8_t * codes = v + b * Codes::kBytes + 2;
        size_t j = 0;
        for (; j + kTurn <= n; j += kTurn) {
            part.fetch(j, kTurn);
            PITH_UNROLL
            for (size_t i = 0; i < kTurn; i += 2) { add_pair(j + i, codes + (j + i) * stride, codes + (j + i + 1) * stride); }
        }
        part.fetch(j, n - j);
        for (; j + 2 <= n; j += 2) { add_pair(j, codes + j * stride, codes + (j + 1) * stride); }
        if (j < n) { add_pair(j, codes + j * stride, codes + j * stride); }  // the second weight is 0
        PITH_UNROLL
        for (size_t r = 0; r < kRows; ++r) {
            Codes::Columns(sums[r]);
            PITH_UNROLL
            for (size_t i = 0; i < 2; ++i) {
                float * to = values + r * head_dim + b * kCodes + i * kN;
                const auto before = hn::Mul(hn::Set(df, factor[r]), hn::LoadU(df, to));
                hn::StoreU(hn::MulAdd(hn::Set(df, weights.unit[r]), hn::ConvertTo(df, sums[r][i]), before), df, to);
            }
        }
    }
}

template <class By>
inline constexpr bool kAreCodes = std::is_same_v<By, CodesQ8_0> || std::is_same_v<By, CodesQ4_0>;

// Calls visit with the codes of a format. false: it has none.
template <class Visit>
HWY_INLINE bool WithCodes(KvFormat format, Visit visit) {
    switch (format) {
        case KvFormat::kQ8_0:
            visit(CodesQ8_0());
            return true;
        case KvFormat::kQ4_0:
            visit(CodesQ4_0());
            return true;
        default:
            return false;
    }
}

#else
template <class By>
inline constexpr bool kAreCodes = false;
template <class Visit>
HWY_INLINE bool WithCodes(KvFormat, Visit) {
    return false;
}
#endif

}  // namespace pith::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
