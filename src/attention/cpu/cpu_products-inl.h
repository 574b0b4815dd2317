// cpu_products-inl.h - products of panels of rows with a block of entries, in f32: queries with keys, weights with values.
// Included once per instruction set. Stage: attention.
//
// Rows lie across a vector's lanes: with Q transposed once, K and V are read as they lie, one element broadcast to all rows.
// WordProducts (cpu_word_products-inl.h) has the same functions in whole numbers.
#if defined(PITH_CPU_PRODUCTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PITH_CPU_PRODUCTS_INL_H_
#undef PITH_CPU_PRODUCTS_INL_H_
#else
#define PITH_CPU_PRODUCTS_INL_H_
#endif

#include "attention/cpu/cpu_kernels.h"
#include "attention/cpu/cpu_simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace pith::HWY_NAMESPACE {

// Scratch of the products, product_floats() in all.
struct ProductSpace {
    float * q;        // [panel][head_dim][rows]
    float * q_scale;  // [n_rows]
    float * k;        // [kEntryBlock][head_dim]
    float * v;        // [kEntryBlock][head_dim_v]
    float * k_scale;  // [kEntryBlock]
    float * v_scale;  // [kEntryBlock]
    float * pairs;    // [kEntryBlock / 2][rows] a panel's weights
    float * unit;     // [rows] what these stand for
    float * row;      // [2][the larger head size]

    ProductSpace(const AttentionTask & task, size_t n_rows, float * scratch) {
        const auto take = [&scratch](size_t n) {
            float * from = scratch;
            scratch += n;
            return from;
        };
        const auto head_dim = static_cast<size_t>(task.head_dim);
        const auto head_dim_v = static_cast<size_t>(task.head_dim_v);
        q = take(n_rows * head_dim);
        k = take(kEntryBlock * head_dim);
        v = take(kEntryBlock * head_dim_v);
        q_scale = take(n_rows);
        k_scale = take(kEntryBlock);
        v_scale = take(kEntryBlock);
        pairs = take(kEntryBlock / 2 * kWidestPanel);
        unit = take(kWidestPanel);
        row = take(2 * HWY_MAX(head_dim, head_dim_v));
    }
};

// n rows as f32.
template <class Load>
void Expand(const uint8_t * from, size_t stride, size_t n, size_t head_dim, float * to) {
    for (size_t j = 0; j < n; ++j) {
        const uint8_t * row = from + j * stride;
        for (size_t c = 0; c < head_dim; c += kN) {
            hn::StoreU(Load::At(row, c, Load::Shared(row, c)), DF(), to + j * head_dim + c);
        }
    }
}

// REQUIRES: SetQuery() for all rows of a panel, and TakeKeys(), before Score(); TakeValues() before Add().
class FloatProducts {
public:
    FloatProducts(const AttentionTask & task, size_t n_rows, float * scratch)
        : task_(task),
          space_(task, n_rows, scratch),
          head_dim_(static_cast<size_t>(task.head_dim)),
          head_dim_v_(static_cast<size_t>(task.head_dim_v)) {}

    // Row r, of panels of kRows: scale times `from`; nullptr: zeros.
    template <size_t kRows>
    HWY_INLINE void SetQuery(size_t r, const float * from, float scale) {
        float * to = space_.q + r / kRows * kRows * head_dim_ + r % kRows;
        for (size_t c = 0; c < head_dim_; ++c) { to[c * kRows] = from == nullptr ? 0.0F : from[c] * scale; }
    }

    // Entries [begin, begin + n) become the block.
    HWY_INLINE void TakeKeys(const LaneView & lane, int begin, size_t n) {
        k_ = BlockRows(task_.k_format, lane.k, task_.k_stride, head_dim_, begin, n, space_.k, k_step_);
    }
    HWY_INLINE void TakeValues(const LaneView & lane, int begin, size_t n) {
        v_ = BlockRows(task_.v_format, lane.v, task_.v_stride, head_dim_v_, begin, n, space_.v, v_step_);
    }

    // weights[j][rows] = k[first + j] . q[row + rows] for n entries (and up to kSteps - 1 more places), kVectors vectors of
    // rows.
    template <size_t kVectors>
    HWY_INLINE void Score(size_t row, size_t first, size_t n, float * HWY_RESTRICT weights) const {
        const DF df;
        constexpr size_t kRows = kVectors * kN;
        const size_t head_dim = head_dim_;
        const float * HWY_RESTRICT q = space_.q + row * head_dim;
        for (size_t j = 0; j < n; j += kSteps) {
            const float * keys[kSteps];
            for (size_t e = 0; e < kSteps; ++e) { keys[e] = k_ + (first + HWY_MIN(j + e, n - 1)) * k_step_; }
            VF sums[kSteps][kVectors];
            for (size_t e = 0; e < kSteps; ++e) {
                for (size_t i = 0; i < kVectors; ++i) { sums[e][i] = hn::Zero(df); }
            }
            for (size_t c = 0; c < head_dim; ++c) {
                VF rows[kVectors];
                for (size_t i = 0; i < kVectors; ++i) { rows[i] = hn::Load(df, q + c * kRows + i * kN); }
                for (size_t e = 0; e < kSteps; ++e) {
                    const auto key = hn::Set(df, keys[e][c]);
                    for (size_t i = 0; i < kVectors; ++i) { sums[e][i] = hn::MulAdd(key, rows[i], sums[e][i]); }
                }
            }
            for (size_t e = 0; e < kSteps; ++e) {
                for (size_t i = 0; i < kVectors; ++i) { hn::Store(sums[e][i], df, weights + (j + e) * kRows + i * kN); }
            }
        }
    }

    // values[c][rows] = factor[rows] values[c][rows] + sum over the block's first n entries of v[j][c] weights[j][rows]
    template <size_t kVectors>
    HWY_INLINE void Add(const float * HWY_RESTRICT weights, const float * HWY_RESTRICT factor, size_t n,
                        float * HWY_RESTRICT values) const {
        const DF df;
        constexpr size_t kRows = kVectors * kN;
        const float * HWY_RESTRICT v = v_;
        const size_t stride = v_step_;
        for (size_t c = 0; c < head_dim_v_; c += kSteps) {
            VF sums[kSteps][kVectors];
            for (size_t i = 0; i < kVectors; ++i) {
                const auto scale = hn::Load(df, factor + i * kN);
                for (size_t e = 0; e < kSteps; ++e) {
                    sums[e][i] = hn::Mul(scale, hn::Load(df, values + (c + e) * kRows + i * kN));
                }
            }
            for (size_t j = 0; j < n; ++j) {
                VF w[kVectors];
                for (size_t i = 0; i < kVectors; ++i) { w[i] = hn::Load(df, weights + j * kRows + i * kN); }
                for (size_t e = 0; e < kSteps; ++e) {
                    const auto value = hn::Set(df, v[j * stride + c + e]);
                    for (size_t i = 0; i < kVectors; ++i) { sums[e][i] = hn::MulAdd(value, w[i], sums[e][i]); }
                }
            }
            for (size_t e = 0; e < kSteps; ++e) {
                for (size_t i = 0; i < kVectors; ++i) { hn::Store(sums[e][i], df, values + (c + e) * kRows + i * kN); }
            }
        }
    }

private:
    // Rows [begin, begin + n) as floats `step` apart: as they lie, or expanded.
    static HWY_INLINE const float * BlockRows(KvFormat format, const void * rows, size_t stride, size_t dim, int begin,
                                              size_t n, float * expanded, size_t & step) {
        const uint8_t * from = static_cast<const uint8_t *>(rows) + static_cast<size_t>(begin) * stride;
        if (format == KvFormat::kF32) {
            step = stride / sizeof(float);
            return reinterpret_cast<const float *>(from);
        }
        step = dim;
        WithLoader(format, [&](auto load) HWY_ATTR { Expand<decltype(load)>(from, stride, n, dim, expanded); });
        return expanded;
    }

    const AttentionTask & task_;
    ProductSpace space_;
    size_t head_dim_;
    size_t head_dim_v_;
    const float * k_ = nullptr;  // of the block
    const float * v_ = nullptr;
    size_t k_step_ = 0;
    size_t v_step_ = 0;
};

}  // namespace pith::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
