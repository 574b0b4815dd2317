// cpu_dot-inl.h - few rows (decode): every key against all rows, then every value into all rows, block by block of entries.
// Included once per instruction set. Stage: attention.
//
// scratch: q [rows][head_dim], scaled so that scores are base-2 logarithms; scores [rows][kEntryBlock], in the unit's partial
// result where columns want them; values [rows][head_dim_v]; then the rows as whole numbers where keys are codes.
#if defined(PITH_CPU_DOT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PITH_CPU_DOT_INL_H_
#undef PITH_CPU_DOT_INL_H_
#else
#define PITH_CPU_DOT_INL_H_
#endif

#include <limits>

#include "attention/cpu/cpu_dot_integer-inl.h"
#include "attention/cpu/cpu_simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace pith::HWY_NAMESPACE {

// Rows at a time: 4 sums each for 4 entries, in registers.
inline constexpr size_t kMaxRowTile = kManyRegisters ? 6 : 3;

// sums[r][e] (+)= q[r] . key e, for a block of elements from c on.
template <bool kFirst, class Load, size_t kRows>
HWY_INLINE void AddProducts(const float * HWY_RESTRICT q, size_t head_dim, const uint8_t * const (&keys)[4], size_t c,
                            VF (&sums)[kRows][4]) {
    const DF df;
    PITH_UNROLL
    for (size_t e = 0; e < 4; ++e) {
        const auto shared = Load::Shared(keys[e], c);
        PITH_UNROLL
        for (size_t i = 0; i < Load::kBlock; ++i) {
            const auto key = Load::At(keys[e], c + i * kN, shared);
            PITH_UNROLL
            for (size_t r = 0; r < kRows; ++r) {
                const auto row = hn::LoadU(df, q + r * head_dim + c + i * kN);
                sums[r][e] = kFirst && i == 0 ? hn::Mul(row, key) : hn::MulAdd(row, key, sums[r][e]);
            }
        }
    }
}

// scores[r][j] = q[r] . k[j] for n entries (and up to 3 more places).
template <class Load, size_t kRows>
void ScoreRows(const float * HWY_RESTRICT q, size_t head_dim, const uint8_t * HWY_RESTRICT k, size_t stride, size_t n,
               const Ahead & ahead, float * HWY_RESTRICT scores) {
    for (size_t j = 0; j < n; j += 4) {
        ahead.fetch(j, 4);
        const uint8_t * keys[4] = {k + j * stride, k + (j + 1) * stride, k + (j + 2) * stride, k + (j + 3) * stride};
        if (j + 4 > n) {
            for (size_t e = 1; e < 4; ++e) { keys[e] = k + HWY_MIN(j + e, n - 1) * stride; }
        }
        VF sums[kRows][4];
        AddProducts<true, Load>(q, head_dim, keys, 0, sums);
        for (size_t c = Load::kBlock * kN; c < head_dim; c += Load::kBlock * kN) {
            AddProducts<false, Load>(q, head_dim, keys, c, sums);
        }
        PITH_UNROLL
        for (size_t r = 0; r < kRows; ++r) {
            const auto four = SumsOf4(sums[r][0], sums[r][1], sums[r][2], sums[r][3]);
            hn::StoreU(four, hn::FixedTag<float, 4>(), scores + r * kEntryBlock + j);
        }
    }
}

// values[r][c] = factor[r] values[r][c] + sum over n entries of p[r][j] v[j][c], for kVectors vectors of columns.
template <class Load, size_t kRows, size_t kVectors>
HWY_INLINE void AddColumns(const float * HWY_RESTRICT p, const float * HWY_RESTRICT factor, const uint8_t * HWY_RESTRICT v,
                           size_t stride, size_t n, size_t c, const Ahead & ahead, float * HWY_RESTRICT values,
                           size_t head_dim) {
    const DF df;
    VF sums[kRows][kVectors];
    for (size_t r = 0; r < kRows; ++r) {
        for (size_t i = 0; i < kVectors; ++i) {
            sums[r][i] = hn::Mul(hn::Set(df, factor[r]), hn::LoadU(df, values + r * head_dim + c + i * kN));
        }
    }
    const auto add = [&](size_t j) HWY_ATTR {
        VF weights[kRows];
        for (size_t r = 0; r < kRows; ++r) { weights[r] = hn::Set(df, p[r * kEntryBlock + j]); }
        auto shared = Load::Shared(v + j * stride, c);
        for (size_t i = 0; i < kVectors; ++i) {
            if (i > 0 && i % Load::kBlock == 0) { shared = Load::Shared(v + j * stride, c + i * kN); }
            const auto value = Load::At(v + j * stride, c + i * kN, shared);
            for (size_t r = 0; r < kRows; ++r) { sums[r][i] = hn::MulAdd(weights[r], value, sums[r][i]); }
        }
    };
    for (size_t j = 0; j < n; j += 4) {
        ahead.fetch(j, 4);
        const size_t end = HWY_MIN(j + 4, n);
        for (size_t e = j; e < end; ++e) { add(e); }
    }
    for (size_t r = 0; r < kRows; ++r) {
        for (size_t i = 0; i < kVectors; ++i) { hn::StoreU(sums[r][i], df, values + r * head_dim + c + i * kN); }
    }
}

template <class Load, size_t kRows>
void AddValues(const float * p, const float * factor, const uint8_t * v, size_t stride, size_t n, const Ahead & ahead,
               float * values, size_t head_dim) {
    const size_t n_passes = (head_dim + 4 * kN - 1) / (4 * kN);  // about
    size_t pass = 0;
    size_t c = 0;
    const auto add = [&](auto n_vectors) HWY_ATTR {
        constexpr size_t kVectors = decltype(n_vectors)::value;
        for (; c + kVectors * kN <= head_dim; c += kVectors * kN) {
            const Ahead part = pass < n_passes ? ahead.part(pass++, n_passes) : Ahead();
            AddColumns<Load, kRows, kVectors>(p, factor, v, stride, n, c, part, values, head_dim);
        }
    };
    add(std::integral_constant<size_t, 4>());
    add(std::integral_constant<size_t, 2>());
    add(std::integral_constant<size_t, 1>());
}

// Calls visit with the number of rows as a constant.
template <size_t kRows = kMaxRowTile, class Visit>
HWY_INLINE void WithRows(size_t n_rows, Visit visit) {
    if (n_rows == kRows) { return visit(std::integral_constant<size_t, kRows>()); }
    if constexpr (kRows > 1) { WithRows<kRows - 1>(n_rows, visit); }
}

// Scores (base-2 logarithms) under a soft-cap of `cap`, also base 2, for n of them (and up to kN - 1 more places).
HWY_INLINE VF Capped(VF score, float cap) {
    const DF df;
    const auto x = hn::Mul(score, hn::Set(df, 1.0F / cap));
    const auto e = Exp2(hn::Mul(hn::Abs(x), hn::Set(df, -2.0F * kLog2E)));
    const auto one = hn::Set(df, 1.0F);
    const auto tanh = hn::CopySign(hn::Div(hn::Sub(one, e), hn::Add(one, e)), x);
    return hn::Mul(tanh, hn::Set(df, cap));
}

HWY_INLINE void CapRow(float * scores, size_t n, float cap) {
    const DF df;
    for (size_t j = 0; j < n; j += kN) { hn::StoreU(Capped(hn::LoadU(df, scores + j), cap), df, scores + j); }
}

// Scores to weights of one row over a block of n entries: 2^(score - maximum). Returns what earlier values are scaled by.
HWY_INLINE float WeighRow(float * scores, size_t n, float & largest, float & sum) {
    const DF df;
    constexpr float kNone = -std::numeric_limits<float>::infinity();
    for (size_t j = n; j % kN != 0; ++j) { scores[j] = kNone; }
    auto most = hn::Set(df, largest);
    for (size_t j = 0; j < n; j += kN) { most = hn::Max(most, hn::LoadU(df, scores + j)); }
    const float now = hn::ReduceMax(df, most);
    const float factor = largest == now ? 1.0F : largest == kNone ? 0.0F : hn::GetLane(Exp2(hn::Set(df, largest - now)));
    auto total = hn::Zero(df);
    for (size_t j = 0; j < n; j += kN) {
        const auto weight = Exp2(hn::Sub(hn::LoadU(df, scores + j), hn::Set(df, now)));
        hn::StoreU(weight, df, scores + j);
        total = hn::Add(total, weight);
    }
    largest = now;
    sum = sum * factor + hn::ReduceSum(df, total);
    return factor;
}

// Finished rows, or partial ones.
HWY_INLINE void StoreRow(const AttentionTask & task, const LaneView & lane, size_t row, const float * values, size_t step,
                         float largest, float sum, float * partial) {
    const auto n = static_cast<size_t>(task.head_dim_v);
    if (partial != nullptr) {
        partial[0] = largest;
        partial[1] = sum;
        for (size_t c = 0; c < n; ++c) { partial[2 + c] = values[c * step]; }
        return;
    }
    const size_t t = row / static_cast<size_t>(task.n_group);
    const size_t g = row % static_cast<size_t>(task.n_group);
    float * out = lane.out + t * task.out_query_stride + g * task.out_head_stride;
    const float scale = add_sink(lane, g, largest, sum);
    const float inverse = sum > 0 ? scale / sum : 0.0F;
    for (size_t c = 0; c < n; ++c) { out[c] = values[c * step] * inverse; }
    if (lane.log_sum != nullptr) { lane.log_sum[row] = (largest + std::log2(sum)) * kLn2; }
}

// A row of a unit: whose it is, and where its partial result goes.
struct DotRow {
    const LaneView * lane;
    size_t row;
    float * partial;  // nullptr: it is finished
};

// Of all units, which see the same entries; returns how many there are.
HWY_INLINE size_t ListRows(const AttentionTask & task, const UnitsInRun & in_run, float * partial, DotRow * rows) {
    size_t n = 0;
    for (size_t i = 0; i < in_run.which.size(); ++i) {
        const AttentionUnit & unit = in_run.unit(i);
        float * to = partial_of(unit, partial);
        for (size_t r = 0; r < static_cast<size_t>(unit.n_rows); ++r) {
            rows[n++] = {&task.lanes[static_cast<size_t>(unit.lane)], static_cast<size_t>(unit.row) + r,
                         to == nullptr ? nullptr : to + r * partial_row_floats(task)};
        }
    }
    return n;
}

// partial: of all units. Which units are computed together makes no difference to a row's result.
void DotUnits(const AttentionTask & task, const UnitsInRun & in_run, float * partial, float * scratch) {
    const AttentionUnit & unit = in_run.unit();
    const LaneView & lane = task.lanes[static_cast<size_t>(unit.lane)];
    const auto head_dim = static_cast<size_t>(task.head_dim);
    const auto head_dim_v = static_cast<size_t>(task.head_dim_v);
    DotRow listed[kMaxDotRows];
    const size_t n_rows = ListRows(task, in_run, partial, listed);
    float * q = scratch;
    float * scores = q + n_rows * head_dim;
    float * values = scores + n_rows * kEntryBlock;
    const IntegerRows integers(values + n_rows * head_dim_v, n_rows, head_dim);
    // Evidence alone keeps the whole precision: its second pass over the same rows may be of many.
    const auto with_key_codes = [&](auto visit) HWY_ATTR { return head_dim_v > 0 && WithCodes(task.k_format, visit); };
    float * maxima = nullptr;
    if (task.columns.any()) {  // the weights are kept
        scores = partial_of(unit, partial) + weights_offset(task, unit);
        maxima = partial_of(unit, partial) + maxima_offset(task, unit);
    }
    keys_ahead(task, lane, unit.begin, unit.end).fetch(0, kEntryBlock / 4);  // while the rows are made ready
    float largest[kMaxDotRows];
    float sum[kMaxDotRows];
    float factor[kMaxDotRows];
    int visible[kMaxDotRows];
    for (size_t r = 0; r < n_rows; ++r) {
        const LaneView & of = *listed[r].lane;
        const size_t t = listed[r].row / static_cast<size_t>(task.n_group);
        const size_t g = listed[r].row % static_cast<size_t>(task.n_group);
        const float * from = of.q + t * task.q_query_stride + g * task.q_head_stride;
        for (size_t c = 0; c < head_dim; ++c) { q[r * head_dim + c] = from[c] * (task.scale * kLog2E); }
        largest[r] = -std::numeric_limits<float>::infinity();
        sum[r] = 0.0F;
        visible[r] = n_visible(task, of, static_cast<int>(t));
    }
    std::fill(values, values + n_rows * head_dim_v, 0.0F);
    with_key_codes([&](auto codes) HWY_ATTR { MakeIntegerRows<decltype(codes)>(q, head_dim, integers); });

    const size_t row_tile =
        (n_rows + (n_rows + kMaxRowTile - 1) / kMaxRowTile - 1) / ((n_rows + kMaxRowTile - 1) / kMaxRowTile);
    for (int begin = unit.begin; begin < unit.end; begin += kEntryBlock) {
        const auto n = static_cast<size_t>(std::min(kEntryBlock, unit.end - begin));
        const uint8_t * k = static_cast<const uint8_t *>(lane.k) + static_cast<size_t>(begin) * task.k_stride;
        const uint8_t * v = static_cast<const uint8_t *>(lane.v) + static_cast<size_t>(begin) * task.v_stride;
        Ahead next_v{v, task.v_stride, head_dim_v > 0 ? n : 0};
        Ahead next_k;
        if (begin + kEntryBlock < unit.end) {
            next_k = keys_ahead(task, lane, begin + kEntryBlock, unit.end);
        } else if (const AttentionUnit * after = in_run.next(); after != nullptr) {
            next_k = keys_ahead(task, task.lanes[static_cast<size_t>(after->lane)], after->begin, after->end);
        }
        const auto score = [&](auto by) HWY_ATTR {  // by: how stored numbers are read
            for (size_t r = 0; r < n_rows; r += row_tile) {
                WithRows(HWY_MIN(row_tile, n_rows - r), [&](auto rows) HWY_ATTR {
                    constexpr size_t kRows = decltype(rows)::value;
                    float * to = scores + r * kEntryBlock;
                    if constexpr (kAreCodes<decltype(by)>) {
                        ScoreIntegers<decltype(by), kRows>(integers, r, head_dim, k, task.k_stride, n, next_v, to);
                    } else {
                        ScoreRows<decltype(by), kRows>(q + r * head_dim, head_dim, k, task.k_stride, n, next_v, to);
                    }
                });
                next_v = Ahead();
            }
        };
        if (!with_key_codes(score)) { WithLoader(task.k_format, score); }
        for (size_t r = 0; r < n_rows; ++r) {
            float * row = scores + r * kEntryBlock;
            const auto seen = static_cast<size_t>(std::clamp(visible[r] - begin, 0, static_cast<int>(n)));
            if (task.softcap != 0.0F) { CapRow(row, seen, task.softcap * kLog2E); }
            factor[r] = seen > 0 ? WeighRow(row, seen, largest[r], sum[r]) : 1.0F;
            if (seen < n) { std::fill(row + seen, row + n, 0.0F); }
        }
        if (maxima != nullptr) { maxima = std::copy_n(largest, n_rows, maxima); }
        if (head_dim_v == 0) {
            scores += n_rows * kEntryBlock;
            continue;
        }
        const auto add = [&](auto by) HWY_ATTR {
            for (size_t r = 0; r < n_rows; r += row_tile) {
                WithRows(HWY_MIN(row_tile, n_rows - r), [&](auto rows) HWY_ATTR {
                    constexpr size_t kRows = decltype(rows)::value;
                    const float * weights = scores + r * kEntryBlock;
                    float * to = values + r * head_dim_v;
                    if constexpr (kAreCodes<decltype(by)>) {
                        AddIntegers<decltype(by), kRows>(weights, factor + r, v, task.v_stride, n, next_k, to, head_dim_v);
                    } else {
                        AddValues<decltype(by), kRows>(weights, factor + r, v, task.v_stride, n, next_k, to, head_dim_v);
                    }
                });
                next_k = Ahead();
            }
        };
        if (!WithCodes(task.v_format, add)) { WithLoader(task.v_format, add); }
        if (maxima != nullptr) { scores += n_rows * kEntryBlock; }
    }
    for (size_t r = 0; r < n_rows; ++r) {
        StoreRow(task, *listed[r].lane, listed[r].row, values + r * head_dim_v, 1, largest[r], sum[r], listed[r].partial);
    }
}

}  // namespace pith::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
