// cpu_tile-inl.h - many rows (prefill): panels of 3 vectors of rows against blocks of entries. Included once per instruction
// set. Stage: attention.
//
// Rows lie across a vector's lanes, so that the softmax needs no sums across lanes; products are those of
// cpu_products-inl.h.
//
// scratch: sums [panel][head_dim_v][rows], weights [kEntryBlock][rows], largest, sum, factor, visible, when [kTileRows], then
// that of the products.
#if defined(PITH_CPU_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PITH_CPU_TILE_INL_H_
#undef PITH_CPU_TILE_INL_H_
#else
#define PITH_CPU_TILE_INL_H_
#endif

#include "attention/cpu/cpu_dot-inl.h"
#include "attention/cpu/cpu_word_products-inl.h"

HWY_BEFORE_NAMESPACE();
namespace pith::HWY_NAMESPACE {

inline constexpr size_t kPanel = 3 * kN;  // rows
static_assert(kTileRows % kPanel == 0 && kEntryBlock % kSteps == 0);

struct TileState {
    float * values;
    float * weights;
    float * largest;
    float * sum;
    float * factor;
    int32_t * visible;
    int32_t * when;  // the rows' query positions, where entries are hidden
    float * products;
};

// Where a block's entries disappear: nullptr where none of them does for queries up to the position `last`.
HWY_INLINE const int32_t * HiddenBlock(const LaneView & lane, int begin, int32_t last) {
    if (lane.hidden == nullptr || begin < lane.hidden->first) { return nullptr; }
    const int32_t * hidden = lane.hidden->hidden.data() + (begin - lane.hidden->first);
    return lane.hidden->ascending && *hidden > last ? nullptr : hidden;
}

// Scores of n entries, for one vector of the kRows rows.
template <size_t kRows>
HWY_INLINE void CapColumn(float * HWY_RESTRICT weights, size_t n, float cap) {
    const DF df;
    for (size_t j = 0; j < n; ++j) { hn::Store(Capped(hn::Load(df, weights + j * kRows), cap), df, weights + j * kRows); }
}

// Scores of entries [begin, begin + n) to weights, for one vector of the kRows rows; those a row does not see get 0: all from
// `visible` on (masked: there are some), and those hidden (may be nullptr) from the row's position `when`. With `products`:
// += the sum of weight * log2(weight), kept relative to the maximum as the sum is.
template <size_t kRows>
HWY_INLINE void WeighColumn(float * HWY_RESTRICT weights, int begin, size_t n, bool masked, const int32_t * visible,
                            const int32_t * hidden, const int32_t * when, float * largest, float * sum, float * factor,
                            float * products = nullptr) {
    const DF df;
    const DI di;
    const auto none = hn::Set(df, -std::numeric_limits<float>::infinity());
    const auto before = hn::Load(df, largest);
    auto now = before;
    if (hidden != nullptr) {
        const auto seen = hn::Load(di, visible);
        const auto at = hn::Load(di, when);
        for (size_t j = 0; j < n; ++j) {
            const auto sees =
                hn::And(hn::Gt(seen, hn::Set(di, begin + static_cast<int>(j))), hn::Lt(at, hn::Set(di, hidden[j])));
            const auto score = hn::IfThenElse(hn::RebindMask(df, sees), hn::Load(df, weights + j * kRows), none);
            hn::Store(score, df, weights + j * kRows);
            now = hn::Max(now, score);
        }
    } else if (masked) {
        const auto seen = hn::Load(di, visible);
        for (size_t j = 0; j < n; ++j) {
            const auto sees = hn::Gt(seen, hn::Set(di, begin + static_cast<int>(j)));
            const auto score = hn::IfThenElse(hn::RebindMask(df, sees), hn::Load(df, weights + j * kRows), none);
            hn::Store(score, df, weights + j * kRows);
            now = hn::Max(now, score);
        }
    } else {
        for (size_t j = 0; j < n; ++j) { now = hn::Max(now, hn::Load(df, weights + j * kRows)); }
    }
    hn::Store(now, df, largest);
    const auto from = hn::IfThenElse(hn::Eq(now, none), hn::Zero(df), now);  // a row that sees nothing yet: 2^(-inf - 0) = 0
    const auto scale = Exp2(hn::Sub(before, from));
    const auto sum_before = hn::Load(df, sum);
    if (products != nullptr) {
        const auto least = hn::Set(df, -126.0F);  // where the weight is 0
        auto total = hn::Zero(df);
        for (size_t j = 0; j < n; ++j) {
            const auto x = hn::Max(hn::Sub(hn::Load(df, weights + j * kRows), from), least);
            total = hn::MulAdd(Exp2(x), x, total);
        }
        const auto shift = hn::Max(hn::Sub(before, from), least);  // a row that saw nothing has a sum of 0
        const auto moved = hn::MulAdd(sum_before, shift, hn::Load(df, products));
        hn::Store(hn::MulAdd(moved, scale, total), df, products);
    }
    auto total = hn::Zero(df);
    for (size_t j = 0; j < n; ++j) {
        const auto weight = Exp2(hn::Sub(hn::Load(df, weights + j * kRows), from));
        hn::Store(weight, df, weights + j * kRows);
        total = hn::Add(total, weight);
    }
    hn::Store(hn::MulAdd(sum_before, scale, total), df, sum);
    hn::Store(scale, df, factor);
}

HWY_INLINE TileState MakeState(const AttentionTask & task, float * scratch) {
    const auto take = [&scratch](size_t n) {
        float * from = scratch;
        scratch += n;
        return from;
    };
    TileState s;
    s.values = take(kTileRows * static_cast<size_t>(task.head_dim_v));
    s.weights = take(kEntryBlock * kPanel);
    s.largest = take(kTileRows);
    s.sum = take(kTileRows);
    s.factor = take(kTileRows);
    s.visible = reinterpret_cast<int32_t *>(take(kTileRows));
    s.when = reinterpret_cast<int32_t *>(take(kTileRows));
    s.products = scratch;
    return s;
}

// Queries transposed by panels, states empty. Rows behind the last repeat its limit with a query of zeros.
template <class Products>
HWY_INLINE void StartTile(const AttentionTask & task, const LaneView & lane, const AttentionUnit & unit, size_t n_padded,
                          const TileState & s, Products & products) {
    const auto n_group = static_cast<size_t>(task.n_group);
    int last_query = -1;
    int seen = 0;
    int32_t when = 0;
    for (size_t r = 0; r < n_padded; ++r) {
        const size_t row = static_cast<size_t>(unit.row) + r;
        const size_t t = row / n_group;
        if (r < static_cast<size_t>(unit.n_rows)) {
            const float * from = lane.q + t * task.q_query_stride + row % n_group * task.q_head_stride;
            products.template SetQuery<kPanel>(r, from, task.scale * kLog2E);
            if (static_cast<int>(t) != last_query) { seen = n_visible(task, lane, static_cast<int>(t)); }
            if (lane.hidden != nullptr) { when = lane.query_positions[t]; }
            last_query = static_cast<int>(t);
        } else {
            products.template SetQuery<kPanel>(r, nullptr, 0.0F);
        }
        s.visible[r] = seen;
        s.when[r] = when;
        s.largest[r] = -std::numeric_limits<float>::infinity();
        s.sum[r] = 0.0F;
    }
    std::fill(s.values, s.values + n_padded * static_cast<size_t>(task.head_dim_v), 0.0F);
}

template <class Products>
void TileUnit(const AttentionTask & task, const AttentionUnit & unit, float * partial, float * scratch) {
    const LaneView & lane = task.lanes[static_cast<size_t>(unit.lane)];
    const auto head_dim_v = static_cast<size_t>(task.head_dim_v);
    const size_t n_panels = (static_cast<size_t>(unit.n_rows) + kPanel - 1) / kPanel;
    const TileState s = MakeState(task, scratch);
    Products products(task, kTileRows, s.products);
    StartTile(task, lane, unit, n_panels * kPanel, s, products);

    for (int begin = unit.begin; begin < unit.end; begin += kEntryBlock) {
        const auto n = static_cast<size_t>(std::min(kEntryBlock, unit.end - begin));
        products.TakeKeys(lane, begin, n);
        products.TakeValues(lane, begin, n);
        const int32_t * hidden = HiddenBlock(lane, begin, s.when[static_cast<size_t>(unit.n_rows) - 1]);
        for (size_t panel = 0; panel < n_panels; ++panel) {
            const size_t row = panel * kPanel;
            const int seen = s.visible[row + kPanel - 1] - begin;  // by the last row, which sees the most
            if (seen <= 0) { continue; }
            const size_t n_seen = HWY_MIN(n, static_cast<size_t>(seen));
            const bool masked = s.visible[row] - begin < static_cast<int>(n_seen);
            products.template Score<3>(row, 0, n_seen, s.weights);
            for (size_t i = 0; i < kPanel; i += kN) {
                if (task.softcap != 0.0F) { CapColumn<kPanel>(s.weights + i, n_seen, task.softcap * kLog2E); }
                WeighColumn<kPanel>(s.weights + i, begin, n_seen, masked, s.visible + row + i, hidden, s.when + row + i,
                                    s.largest + row + i, s.sum + row + i, s.factor + i);
            }
            products.template Add<3>(s.weights, s.factor, n_seen, s.values + row * head_dim_v);
        }
    }
    for (size_t r = 0; r < static_cast<size_t>(unit.n_rows); ++r) {
        StoreRow(task, lane, static_cast<size_t>(unit.row) + r, s.values + r / kPanel * kPanel * head_dim_v + r % kPanel,
                 kPanel, s.largest[r], s.sum[r], partial == nullptr ? nullptr : partial + r * partial_row_floats(task));
    }
}

}  // namespace pith::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
