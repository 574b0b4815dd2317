// cpu_panel-inl.h - a panel of one head's queries against all entries they see: weights kept, values added up. Included once
// per instruction set. Stage: attention → evidence.
//
// scratch: see MakeColumnState(); rows [panel] of up to kWidestPanel.
#if defined(PITH_CPU_PANEL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PITH_CPU_PANEL_INL_H_
#undef PITH_CPU_PANEL_INL_H_
#else
#define PITH_CPU_PANEL_INL_H_
#endif

#include "attention/cpu/cpu_ahead.h"
#include "attention/cpu/cpu_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace pith::HWY_NAMESPACE {

struct ColumnState {
    float * largest;      // [rows] of the scores so far; in the end of all, as the next three
    float * sum;          // [rows] of the weights, relative to it
    float * squares;      // [rows] of the squared weights
    float * products;     // [rows] of weight * log2(weight)
    float * factor;       // [rows]
    float * share;        // [rows] what makes the weights probabilities; 0 for rows that are none
    float * unit_share;   // [rows] what makes them the row that the profile wants
    int32_t * visible;    // [rows]
    int32_t * when;       // [rows] query positions, where entries are hidden
    float * of_products;  // their scratch
    float * weights;      // [entry][rows]
    float * maxima;       // [block][rows] what a block's weights are relative to
    float * parts;        // [span][part_floats]: per row maximum, sum, values, squares, products, each [rows]
    float * group_means;  // [entry][rows]
};

HWY_INLINE size_t PartFloats(const AttentionTask & task, size_t n_rows) {
    return (static_cast<size_t>(task.head_dim_v) + 4) * n_rows;
}

HWY_INLINE ColumnState MakeColumnState(const AttentionTask & task, int longest, int span, float * scratch) {
    const auto take = [&scratch](size_t n) {
        float * from = scratch;
        scratch += n;
        return from;
    };
    const size_t n_blocks = static_cast<size_t>(longest + kEntryBlock - 1) / kEntryBlock;
    ColumnState s;
    for (float ** rows : {&s.largest, &s.sum, &s.squares, &s.products, &s.factor, &s.share, &s.unit_share}) {
        *rows = take(kWidestPanel);
    }
    s.visible = reinterpret_cast<int32_t *>(take(kWidestPanel));
    s.when = reinterpret_cast<int32_t *>(take(kWidestPanel));
    s.of_products = take(product_floats(task, kWidestPanel));
    s.weights = take(n_blocks * kEntryBlock * kWidestPanel);
    s.maxima = take(n_blocks * kWidestPanel);
    s.parts = take((longest > span ? static_cast<size_t>((longest + span - 1) / span) : 1) * PartFloats(task, kWidestPanel));
    s.group_means = scratch;
    return s;
}

// Queries [first, first + n) of one head.
struct Panel {
    const AttentionTask & task;
    const LaneView & lane;
    int first;
    int n;
    int head;        // in the group
    bool last_head;  // of those whose squared mean is asked for
    size_t head_index() const {
        return static_cast<size_t>(&lane - task.lanes.data()) * static_cast<size_t>(task.n_group) + static_cast<size_t>(head);
    }
    int end(const ColumnState & s) const { return s.visible[n - 1]; }
    int past() const { return task.columns.past[static_cast<size_t>(&lane - task.lanes.data())]; }
};

// Queries transposed, states empty. Rows behind the last are queries of zeros.
template <size_t kVectors, class Products>
HWY_INLINE void StartPanel(const Panel & p, const ColumnState & s, Products & products) {
    constexpr size_t kRows = kVectors * kN;
    for (size_t r = 0; r < kRows; ++r) {
        const bool real = r < static_cast<size_t>(p.n);
        const size_t t = static_cast<size_t>(p.first) + r;
        const float * from =
            real ? p.lane.q + t * p.task.q_query_stride + static_cast<size_t>(p.head) * p.task.q_head_stride : nullptr;
        products.template SetQuery<kRows>(r, from, p.task.scale * kLog2E);
        s.visible[r] = real ? n_visible(p.task, p.lane, static_cast<int>(t)) : s.visible[r - 1];
        if (p.lane.hidden != nullptr) { s.when[r] = real ? p.lane.query_positions[t] : s.when[r - 1]; }
    }
}

// The states of a span's rows, in its part.
template <size_t kVectors>
HWY_INLINE float * StartSpan(const Panel & p, const ColumnState & s, int span_index) {
    constexpr size_t kRows = kVectors * kN;
    float * values = s.parts + static_cast<size_t>(span_index) * PartFloats(p.task, kRows) + 2 * kRows;
    std::fill(values, values + static_cast<size_t>(p.task.head_dim_v) * kRows, 0.0F);
    for (size_t r = 0; r < kRows; ++r) {
        s.largest[r] = -std::numeric_limits<float>::infinity();
        s.sum[r] = s.squares[r] = s.products[r] = 0.0F;
    }
    return values;
}

// values: of the part.
template <size_t kVectors>
HWY_INLINE void EndSpan(const Panel & p, const ColumnState & s, float * values) {
    constexpr size_t kRows = kVectors * kN;
    std::copy_n(s.largest, kRows, values - 2 * kRows);
    std::copy_n(s.sum, kRows, values - kRows);
    float * behind = values + static_cast<size_t>(p.task.head_dim_v) * kRows;
    std::copy_n(s.squares, kRows, behind);
    std::copy_n(s.products, kRows, behind + kRows);
}

// The rows' states over all spans, from their parts.
template <size_t kVectors>
HWY_INLINE void JoinSpans(const Panel & p, const ColumnState & s, size_t n_parts) {
    constexpr size_t kRows = kVectors * kN;
    const size_t stride = PartFloats(p.task, kRows);
    const size_t behind = (2 + static_cast<size_t>(p.task.head_dim_v)) * kRows;
    for (size_t r = 0; r < kRows; ++r) {
        float largest = -std::numeric_limits<float>::infinity();
        for (size_t i = 0; i < n_parts; ++i) { largest = std::max(largest, s.parts[i * stride + r]); }
        double sum = 0;
        double squares = 0;
        double products = 0;
        for (size_t i = 0; i < n_parts; ++i) {
            const float * part = s.parts + i * stride + r;
            if (part[kRows] == 0) { continue; }
            const double shift = double{part[0]} - double{largest};
            const double scale = std::exp2(shift);
            sum += scale * double{part[kRows]};
            squares += scale * scale * double{part[behind]};
            products += scale * (double{part[behind + kRows]} + shift * double{part[kRows]});
        }
        s.largest[r] = largest;
        s.sum[r] = static_cast<float>(sum);
        s.squares[r] = static_cast<float>(squares);
        s.products[r] = static_cast<float>(products);
    }
}

// Returns the number of spans.
template <size_t kVectors, class Products>
HWY_INLINE size_t AttendPanel(const Panel & p, const ColumnState & s, int span, Products & products) {
    const DF df;
    constexpr size_t kRows = kVectors * kN;
    const AttentionTask & task = p.task;
    const bool wants_squares = !task.columns.profile.empty() && task.columns.distance == HeadDistance::kCosine;
    const bool wants_products = !task.columns.entropy.empty();
    const int end = p.end(s);
    size_t n_parts = 0;
    float * values = nullptr;
    for (int begin = 0; begin < std::max(end, 1); begin += kEntryBlock) {
        if (begin % span == 0) {
            if (begin > 0) { EndSpan<kVectors>(p, s, values); }
            values = StartSpan<kVectors>(p, s, static_cast<int>(n_parts++));
            if (end == 0) { break; }
        }
        const auto n = static_cast<size_t>(std::min(kEntryBlock, end - begin));
        const bool masked = s.visible[0] - begin < static_cast<int>(n);
        const int32_t * hidden = HiddenBlock(p.lane, begin, s.when[p.n - 1]);
        float * weights = s.weights + static_cast<size_t>(begin) * kRows;
        products.TakeKeys(p.lane, begin, n);
        const Ahead next_k = keys_ahead(task, p.lane, begin + kEntryBlock, end);
        for (size_t j = 0; j < n; j += kSteps) {
            next_k.fetch(j, kSteps);
            products.template Score<kVectors>(0, j, HWY_MIN(kSteps, n - j), weights + j * kRows);
        }
        for (size_t i = 0; i < kRows; i += kN) {
            if (task.softcap != 0.0F) { CapColumn<kRows>(weights + i, n, task.softcap * kLog2E); }
            WeighColumn<kRows>(weights + i, begin, n, masked, s.visible + i, hidden, s.when + i, s.largest + i, s.sum + i,
                               s.factor + i, wants_products ? s.products + i : nullptr);
        }
        for (size_t i = 0; i < kRows && wants_squares; i += kN) {
            auto total = hn::Zero(df);
            for (size_t j = 0; j < n; ++j) {
                const auto weight = hn::Load(df, weights + j * kRows + i);
                total = hn::MulAdd(weight, weight, total);
            }
            const auto factor = hn::Load(df, s.factor + i);
            hn::Store(hn::MulAdd(hn::Mul(factor, factor), hn::Load(df, s.squares + i), total), df, s.squares + i);
        }
        // Columns are summed four at a time.
        std::fill(weights + n * kRows, weights + (n + 3) / 4 * 4 * kRows, 0.0F);
        std::copy_n(s.largest, kRows, s.maxima + static_cast<size_t>(begin) / kEntryBlock * kRows);
        if (task.head_dim_v == 0) { continue; }
        products.TakeValues(p.lane, begin, n);
        products.template Add<kVectors>(weights, s.factor, n, values);
    }
    EndSpan<kVectors>(p, s, values);
    if (n_parts > 1) { JoinSpans<kVectors>(p, s, n_parts); }
    return n_parts;
}

}  // namespace pith::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
