// cpu_word_products-inl.h - products of panels of rows with a block of entries in 16-bit whole numbers, where the processor
// adds up pairs of them faster than numbers in f32: twice as many a cycle with AVX-512 VNNI and what Ice Lake and Zen 4 have
// besides; with AVX2 alone a pair takes two instructions, of which most processors start more a cycle than of those in f32.
// (With AVX-512 without VNNI they start no more.) Included once per instruction set. Stage: attention.
//
// Queries and keys are rounded row by row, as shares of the row's length (its L2 norm), so that by Cauchy and Schwarz no sum of
// products overflows, or less fine where its largest element would not fit. A value's row is rounded as shares of its largest
// element; the weights of a row of the panel, times these elements, are rounded block by block as shares of their largest, or
// less fine where their sum could overflow. Sums are exact, so that their order does not matter: a row's result depends only on
// the entries that it sees, whatever tile or batch it is in. Error: less than that of K and V in f16
// (tests/attention/word_products_test.cpp; tests/attention/rounding.h derives a bound). FloatProducts are used for rows in f32,
// heads of more than kMostWordDims, and on other processors. What is no number, or infinite, makes scales that
// are no numbers, and with them the results.
#if defined(PITH_CPU_WORD_PRODUCTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PITH_CPU_WORD_PRODUCTS_INL_H_
#undef PITH_CPU_WORD_PRODUCTS_INL_H_
#else
#define PITH_CPU_WORD_PRODUCTS_INL_H_
#endif

#include "attention/cpu/cpu_products-inl.h"
#include "attention/cpu/cpu_whole-inl.h"

HWY_BEFORE_NAMESPACE();
namespace pith::HWY_NAMESPACE {

#if HWY_ARCH_X86 && (HWY_TARGET <= HWY_AVX3_DL || HWY_TARGET == HWY_AVX2)
inline constexpr bool kHasWordProducts = true;

class WordProducts {
public:
    WordProducts(const AttentionTask & task, size_t n_rows, float * scratch)
        : task_(task),
          space_(task, n_rows, scratch),
          head_dim_(static_cast<size_t>(task.head_dim)),
          head_dim_v_(static_cast<size_t>(task.head_dim_v)),
          k_(reinterpret_cast<int16_t *>(space_.k)),
          v_(reinterpret_cast<int16_t *>(space_.v)),
          pairs_(reinterpret_cast<int32_t *>(space_.pairs)) {}

    template <size_t kRows>
    HWY_INLINE void SetQuery(size_t r, const float * from, float scale) {
        auto * to = reinterpret_cast<int32_t *>(space_.q + r / kRows * kRows * head_dim_) + r % kRows;
        if (from == nullptr) {
            for (size_t c = 0; c < head_dim_ / 2; ++c) { to[c * kRows] = 0; }
            space_.q_scale[r] = 0.0F;
            return;
        }
        const auto at = [&](size_t c) HWY_ATTR { return hn::Mul(hn::LoadU(DF(), from + c), hn::Set(DF(), scale)); };
        auto * words = reinterpret_cast<int16_t *>(space_.row + head_dim_);
        space_.q_scale[r] = RoundRow(at, words);
        for (size_t c = 0; c < head_dim_ / 2; ++c) {
            int32_t pair;
            hwy::CopyBytes<sizeof(pair)>(words + 2 * c, &pair);
            to[c * kRows] = pair;
        }
    }

    HWY_INLINE void TakeKeys(const LaneView & lane, int begin, size_t n) {
        WithLoader(task_.k_format, [&](auto load) HWY_ATTR { RoundKeys<decltype(load)>(lane, begin, n); });
    }
    HWY_INLINE void TakeValues(const LaneView & lane, int begin, size_t n) {
        WithLoader(task_.v_format, [&](auto load) HWY_ATTR { RoundValues<decltype(load)>(lane, begin, n); });
    }

    template <size_t kVectors>
    HWY_INLINE void Score(size_t row, size_t first, size_t n, float * HWY_RESTRICT weights) const {
        const DF df;
        constexpr size_t kRows = kVectors * kN;
        const size_t n_pairs = head_dim_ / 2;
        const auto * q = reinterpret_cast<const int32_t *>(space_.q + row * head_dim_);
        const float * HWY_RESTRICT q_scale = space_.q_scale + row;
        for (size_t j = 0; j < n; j += kSteps) {
            const float * HWY_RESTRICT scales = space_.k_scale + first + j;
            SumPairs<kVectors>(q, n_pairs, reinterpret_cast<const int32_t *>(k_ + (first + j) * head_dim_), n_pairs, 1,
                               [&](size_t e, size_t i, VI sum) HWY_ATTR {
                                   const auto scores = hn::Mul(hn::ConvertTo(df, sum), hn::Set(df, scales[e]));
                                   hn::Store(hn::Mul(scores, hn::Load(df, q_scale + i * kN)), df,
                                             weights + (j + e) * kRows + i * kN);
                               });
        }
    }

    template <size_t kVectors>
    HWY_INLINE void Add(const float * HWY_RESTRICT weights, const float * HWY_RESTRICT factor, size_t n,
                        float * HWY_RESTRICT values) const {
        const DF df;
        constexpr size_t kRows = kVectors * kN;
        for (size_t i = 0; i < kRows; i += kN) { RoundWeights<kRows>(weights + i, n, pairs_ + i, space_.unit + i); }
        for (size_t c = 0; c < head_dim_v_; c += kSteps) {
            SumPairs<kVectors>(pairs_, (n + 1) / 2, reinterpret_cast<const int32_t *>(v_ + 2 * c), 1, head_dim_v_,
                               [&](size_t e, size_t i, VI sum) HWY_ATTR {
                                   float * to = values + (c + e) * kRows + i * kN;
                                   const auto before = hn::Mul(hn::Load(df, factor + i * kN), hn::Load(df, to));
                                   hn::Store(hn::MulAdd(hn::ConvertTo(df, sum), hn::Load(df, space_.unit + i * kN), before), df,
                                             to);
                               });
        }
    }

private:
    // |sum of queries times keys| <= kLongest^2 < 2^31, with what rounding adds to a row: half the root of head_dim.
    static constexpr float kLongest = 46330.0F;  // row of queries or keys
    static constexpr float kLargestWord = 32767.0F;
    // |sum of weights times values| <= kLargestSum * kLargest < 2^31, with what rounding adds to the weights.
    static constexpr float kLargest = 16370.0F;      // element of values
    static constexpr float kLargestSum = 131072.0F;  // of a row's weights in a block

    // sum + the products of pairs in `factor` and `row`, which `row_at` has, too. As instructions: around the intrinsics GCC 12
    // writes every sum to memory in every step.
    static HWY_INLINE VI Dot(VI sum, VI factor, VI row, const int32_t * row_at, bool from_memory) {
#if HWY_TARGET == HWY_AVX2
        __m256i products;
        if (from_memory) {
            asm("vpmaddwd %2, %1, %0" : "=x"(products) : "x"(factor.raw), "m"(*reinterpret_cast<const __m256i *>(row_at)));
        } else {
            asm("vpmaddwd %2, %1, %0" : "=x"(products) : "x"(factor.raw), "x"(row.raw));
        }
        asm("vpaddd %1, %0, %0" : "+x"(sum.raw) : "x"(products));
#else
        static_cast<void>(row_at);
        static_cast<void>(from_memory);
        asm("vpdpwssd %2, %1, %0" : "+v"(sum.raw) : "v"(row.raw), "v"(factor.raw));
#endif
        return sum;
    }
    // Vectors of rows in registers. Of sixteen registers twelve are sums, one is a factor, one a product: the third vector of
    // rows is read from memory, product by product.
    static constexpr size_t kInRegisters = kManyRegisters ? 3 : 2;

    // end(e, i, sum over n steps of rows[step][i] * by[e * of_sum + step * of_step], all of them pairs), for kSteps sums e of
    // kVectors vectors i.
    template <size_t kVectors, class End>
    static HWY_INLINE void SumPairs(const int32_t * HWY_RESTRICT rows, size_t n, const int32_t * HWY_RESTRICT by, size_t of_sum,
                                    size_t of_step, const End & end) {
        VI sums[kSteps][kVectors];
        PITH_UNROLL
        for (size_t e = 0; e < kSteps; ++e) {
            PITH_UNROLL
            for (size_t i = 0; i < kVectors; ++i) { sums[e][i] = hn::Zero(DI()); }
        }
        for (size_t step = 0; step < n; ++step, rows += kVectors * kN, by += of_step) {
            VI row[kVectors];
            PITH_UNROLL
            for (size_t i = 0; i < HWY_MIN(kVectors, kInRegisters); ++i) { row[i] = hn::Load(DI(), rows + i * kN); }
            PITH_UNROLL
            for (size_t e = 0; e < kSteps; ++e) {
                const VI factor = hn::Set(DI(), by[e * of_sum]);
                PITH_UNROLL
                for (size_t i = 0; i < kVectors; ++i) {
                    const bool from_memory = i >= kInRegisters;
                    sums[e][i] = Dot(sums[e][i], factor, row[from_memory ? 0 : i], rows + i * kN, from_memory);
                }
            }
        }
        PITH_UNROLL
        for (size_t e = 0; e < kSteps; ++e) {
            PITH_UNROLL
            for (size_t i = 0; i < kVectors; ++i) { end(e, i, sums[e][i]); }
        }
    }

    // Element c to c + kN of a row of queries or keys: at(c). Returns what 1 stands for.
    template <class At>
    HWY_INLINE float RoundRow(const At & at, int16_t * to) const {
        const hn::Rebind<int16_t, DF> d16;
        auto squares = hn::Zero(DF());
        auto sizes = hn::Zero(DI());
        for (size_t c = 0; c < head_dim_; c += kN) {
            const VF x = at(c);
            squares = hn::MulAdd(x, x, squares);
            sizes = LargerSize(sizes, x);
            hn::Store(x, DF(), space_.row + c);
        }
        const float length = std::sqrt(hn::ReduceSum(DF(), squares));
        const float unit = std::max(length * (1.0F / kLongest), LargestOf(sizes) * (1.0F / kLargestWord));
        const auto share = FactorTo(1.0F, unit);
        for (size_t c = 0; c < head_dim_; c += kN) {
            hn::StoreU(hn::DemoteTo(d16, Nearest(hn::Mul(hn::Load(DF(), space_.row + c), share))), d16, to + c);
        }
        return FiniteOrNone(unit);
    }

    static float FiniteOrNone(float scale) {
        return scale < std::numeric_limits<float>::infinity() ? scale : NAN;
    }

    template <class Load>
    void RoundKeys(const LaneView & lane, int begin, size_t n) {
        const uint8_t * row = static_cast<const uint8_t *>(lane.k) + static_cast<size_t>(begin) * task_.k_stride;
        for (size_t j = 0; j < n; ++j, row += task_.k_stride) {
            const auto at = [row](size_t c) HWY_ATTR { return Load::At(row, c, Load::Shared(row, c)); };
            space_.k_scale[j] = RoundRow(at, k_ + j * head_dim_);
        }
        for (size_t j = n; j % kSteps != 0; ++j) {  // scores are computed kSteps at a time
            std::fill_n(k_ + j * head_dim_, head_dim_, int16_t{0});
            space_.k_scale[j] = 0.0F;
        }
    }

    // Pairs of entries side by side. A last one without a partner has its own numbers beside it, whose weights are 0.
    template <class Load>
    void RoundValues(const LaneView & lane, int begin, size_t n) {
        const uint8_t * rows = static_cast<const uint8_t *>(lane.v) + static_cast<size_t>(begin) * task_.v_stride;
        for (size_t j = 0; j < n; j += 2) {
            VF shares[2];
            for (size_t e = 0; e < 2; ++e) {
                const size_t entry = HWY_MIN(j + e, n - 1);
                const uint8_t * row = rows + entry * task_.v_stride;
                auto sizes = hn::Zero(DI());
                for (size_t c = 0; c < head_dim_v_; c += kN) {
                    const auto x = Load::At(row, c, Load::Shared(row, c));
                    sizes = LargerSize(sizes, x);
                    hn::Store(x, DF(), space_.row + e * head_dim_v_ + c);
                }
                const float largest = LargestOf(sizes);
                shares[e] = FactorTo(kLargest, largest);
                space_.v_scale[entry] = FiniteOrNone(largest * (1.0F / kLargest));
            }
            for (size_t c = 0; c < head_dim_v_; c += kN) {
                const auto a = Nearest(hn::Mul(hn::Load(DF(), space_.row + c), shares[0]));
                const auto b = Nearest(hn::Mul(hn::Load(DF(), space_.row + head_dim_v_ + c), shares[1]));
                hn::Store(PairOf(a, b), DI(), reinterpret_cast<int32_t *>(v_ + (j * head_dim_v_ + 2 * c)));
            }
        }
    }

    static HWY_INLINE VI PairOf(VI a, VI b) {
        return hn::Or(hn::And(a, hn::Set(DI(), 0xFFFF)), hn::ShiftLeft<16>(b));
    }

    // 0 for an entry that a row does not see, also where the scale of the entry's value is no number.
    static HWY_INLINE VF WeightTimes(const float * HWY_RESTRICT weights, VF scale) {
        const VF weight = hn::Load(DF(), weights);
        return hn::IfThenZeroElse(hn::Eq(weight, hn::Zero(DF())), hn::Mul(weight, scale));
    }

    // Weights of n entries, for one vector of the kRows rows, times the entries' scales, as shares of `unit`.
    template <size_t kRows>
    HWY_INLINE void RoundWeights(const float * HWY_RESTRICT weights, size_t n, int32_t * HWY_RESTRICT pairs,
                                 float * HWY_RESTRICT unit) const {
        const DF df;
        auto largest = hn::Zero(df);
        auto sum = hn::Zero(df);
        for (size_t j = 0; j < n; ++j) {
            const auto x = WeightTimes(weights + j * kRows, hn::Set(df, space_.v_scale[j]));
            largest = hn::Max(largest, x);
            sum = hn::Add(sum, x);
        }
        const auto of_one =
            hn::Max(hn::Max(hn::Mul(largest, hn::Set(df, 1.0F / kLargestWord)), hn::Mul(sum, hn::Set(df, 1.0F / kLargestSum))),
                    hn::Set(df, 1e-37F));
        const auto share = hn::Div(hn::Set(df, 1.0F), of_one);
        hn::Store(hn::MulAdd(sum, hn::Zero(df), of_one), df, unit);  // not a number, if the sum is none
        const auto round = [&](size_t j) HWY_ATTR {
            return Nearest(WeightTimes(weights + j * kRows, hn::Mul(share, hn::Set(df, space_.v_scale[j]))));
        };
        for (size_t j = 0; j + 1 < n; j += 2) { hn::Store(PairOf(round(j), round(j + 1)), DI(), pairs + j / 2 * kRows); }
        if (n % 2 != 0) { hn::Store(PairOf(round(n - 1), hn::Zero(DI())), DI(), pairs + n / 2 * kRows); }
    }

    const AttentionTask & task_;
    ProductSpace space_;
    size_t head_dim_;
    size_t head_dim_v_;
    int16_t * k_;  // [entry][head_dim]
    int16_t * v_;  // [entry / 2][head_dim_v][2]
    int32_t * pairs_;
};

#else
inline constexpr bool kHasWordProducts = false;
using WordProducts = FloatProducts;  // never asked for
#endif

inline constexpr int kMostWordDims = 256;  // of queries and keys: those of longer rows would be less fine than f16

HWY_INLINE bool RoundsToWords(KvFormat k_format, KvFormat v_format, int head_dim) {
    return kHasWordProducts && k_format != KvFormat::kF32 && v_format != KvFormat::kF32 && head_dim <= kMostWordDims;
}

// Calls visit with the kind of products that the task's rows are made for, as a std::type_identity. Evidence alone keeps the
// whole precision, as it does of few rows.
template <class Visit>
HWY_INLINE void WithProducts(const AttentionTask & task, const Visit & visit) {
    if constexpr (kHasWordProducts) {
        if (task.head_dim_v > 0 && RoundsToWords(task.k_format, task.v_format, task.head_dim)) {
            return visit(std::type_identity<WordProducts>());
        }
    }
    visit(std::type_identity<FloatProducts>());
}

}  // namespace pith::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
