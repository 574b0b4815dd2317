// cpu_columns-inl.h - many rows whose columns are added up: a panel of one head's queries against all entries they see
// (cpu_panel-inl.h), then its weights once more. Included once per instruction set. Stage: attention → evidence.
//
// Queries lie across a vector's lanes, so that a column's sum is one over a panel's vectors: four entries are summed across
// lanes at a time.
#if defined(PITH_CPU_COLUMNS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PITH_CPU_COLUMNS_INL_H_
#undef PITH_CPU_COLUMNS_INL_H_
#else
#define PITH_CPU_COLUMNS_INL_H_
#endif

#include "attention/cpu/cpu_panel-inl.h"

HWY_BEFORE_NAMESPACE();
namespace pith::HWY_NAMESPACE {

// What a block's weights are multiplied by, vector by vector.
template <size_t kVectors>
HWY_INLINE void BlockShares(const ColumnState & s, int begin, const float * share, VF (&out)[kVectors]) {
    const DF df;
    const float * maxima = s.maxima + static_cast<size_t>(begin) / kEntryBlock * kVectors * kN;
    for (size_t i = 0; i < kVectors; ++i) {
        const auto of_block = hn::Load(df, maxima + i * kN);
        const auto seen = hn::Ne(of_block, hn::Set(df, -std::numeric_limits<float>::infinity()));
        const auto back = Exp2(hn::Sub(of_block, hn::Load(df, s.largest + i * kN)));
        out[i] = hn::IfThenElseZero(seen, hn::Mul(back, hn::Load(df, share + i * kN)));
    }
}

// What every entry of the lane loses of the profile, summed over the rows. A row sums to 1, or with a sink to what that leaves:
// its mean over the lane is that by the length; entries it does not see are 0.
template <size_t kVectors>
HWY_INLINE double CentreRows(const Panel & p, const ColumnState & s) {
    const DF df;
    constexpr size_t kRows = kVectors * kN;
    const int end = p.end(s);
    const float of_one = 1.0F / static_cast<float>(p.lane.length);
    const auto mean_of = [&](size_t r) { return p.lane.sinks == nullptr ? of_one : of_one * s.sum[r] * s.share[r]; };
    float * means = s.factor;  // nobody needs it any more
    for (size_t r = 0; r < kRows; ++r) { means[r] = mean_of(r); }
    for (size_t i = 0; i < kRows; i += kN) { hn::Store(hn::Zero(df), df, s.squares + i); }
    for (int begin = 0; begin < end; begin += kEntryBlock) {
        const auto n = static_cast<size_t>(std::min(kEntryBlock, end - begin));
        const float * weights = s.weights + static_cast<size_t>(begin) * kRows;
        VF share[kVectors];
        BlockShares<kVectors>(s, begin, s.share, share);
        for (size_t i = 0; i < kVectors; ++i) {
            auto total = hn::Zero(df);
            for (size_t j = 0; j < n; ++j) {
                const auto from_mean =
                    hn::MulSub(hn::Load(df, weights + j * kRows + i * kN), share[i], hn::Load(df, means + i * kN));
                total = hn::MulAdd(from_mean, from_mean, total);
            }
            hn::Store(hn::Add(hn::Load(df, s.squares + i * kN), total), df, s.squares + i * kN);
        }
    }
    double less = 0;
    for (size_t r = 0; r < kRows; ++r) {
        const double mean = means[r];
        const double squares = double{s.squares[r]} + (p.lane.length - end) * mean * mean;
        const double scale = s.share[r] == 0 || is_even(squares, p.lane.length) ? 0.0 : 1.0 / std::sqrt(squares);
        s.unit_share[r] = static_cast<float>(double{s.share[r]} * scale);
        less += mean * scale;
    }
    return less;
}

// Σ p log2 p of row r over the entries from the first query on: few, so one by one.
template <size_t kVectors>
HWY_INLINE double LaterProducts(const Panel & p, const ColumnState & s, size_t r) {
    constexpr size_t kRows = kVectors * kN;
    double products = 0;
    for (int j = p.past(); j < s.visible[r]; ++j) {
        const float maximum = s.maxima[static_cast<size_t>(j) / kEntryBlock * kRows + r];
        if (maximum == -std::numeric_limits<float>::infinity()) { continue; }
        const double probability = double{s.weights[static_cast<size_t>(j) * kRows + r]} *
                                   std::exp2(double{maximum} - double{s.largest[r]}) * double{s.share[r]};
        if (probability > 0) { products += probability * std::log2(probability); }
    }
    return products;
}

// Shares of the rows; numbers [2]: += entropy, what entries lose of the profile.
template <size_t kVectors>
HWY_INLINE void FinishRows(const Panel & p, const ColumnState & s, double * numbers) {
    const ColumnTask & columns = p.task.columns;
    for (size_t r = 0; r < kVectors * kN; ++r) {
        const bool sees = r < static_cast<size_t>(p.n) && s.sum[r] != 0;  // not a number: then the row is none either
        float largest = s.largest[r];
        float sum = s.sum[r];
        const float scale = add_sink(p.lane, static_cast<size_t>(p.head), largest, sum);
        s.share[r] = sees ? scale / sum : 0.0F;
        s.unit_share[r] = sees && s.squares[r] != 0 ? static_cast<float>(1.0 / std::sqrt(double{s.squares[r]})) : s.share[r];
        if (sees && !columns.entropy.empty()) {
            // p = w / all weights, so that -Σ p log2 p = (Σ w log2 of them - Σ w log2 w) / them, which without a sink are Σ w;
            // less what the newest entries have of it.
            const double seen = s.sum[r];
            const double weights = p.lane.sinks == nullptr ? seen : 1.0 / double{s.share[r]};
            const double all = seen / weights * std::log2(weights) - double{s.products[r]} / weights;
            numbers[0] += (all + LaterProducts<kVectors>(p, s, r)) * double{kLn2};
        }
    }
    if (!columns.profile.empty() && columns.distance == HeadDistance::kPearson) { numbers[1] += CentreRows<kVectors>(p, s); }
}

// to[j] += the sum over the rows of value(i, vector i of entry j), for n entries (and up to 3 more places).
template <size_t kVectors, class Value>
HWY_INLINE void AddColumnSums(const float * HWY_RESTRICT weights, size_t n, float * HWY_RESTRICT to, Value value) {
    const DF df;
    const hn::FixedTag<float, 4> d4;
    constexpr size_t kRows = kVectors * kN;
    for (size_t j = 0; j < n; j += 4) {
        VF sums[4];
        for (size_t e = 0; e < 4; ++e) {
            sums[e] = value(0, hn::Load(df, weights + (j + e) * kRows));
            for (size_t i = 1; i < kVectors; ++i) {
                sums[e] = hn::Add(sums[e], value(i, hn::Load(df, weights + (j + e) * kRows + i * kN)));
            }
        }
        hn::StoreU(hn::Add(hn::LoadU(d4, to + j), SumsOf4(sums[0], sums[1], sums[2], sums[3])), d4, to + j);
    }
}

// to[j] = the largest over the rows of w · share, or itself; for n entries.
template <size_t kVectors>
HWY_INLINE void TakeColumnMaxima(const float * HWY_RESTRICT weights, size_t n, const VF (&share)[kVectors],
                                 float * HWY_RESTRICT to) {
    const DF df;
    constexpr size_t kRows = kVectors * kN;
    for (size_t j = 0; j < n; ++j) {
        auto most = hn::Mul(hn::Load(df, weights + j * kRows), share[0]);
        for (size_t i = 1; i < kVectors; ++i) {
            most = hn::Max(most, hn::Mul(hn::Load(df, weights + j * kRows + i * kN), share[i]));
        }
        to[j] = std::max(to[j], hn::ReduceMax(df, most));
    }
}

// Rows that are asked for themselves.
template <size_t kVectors>
HWY_INLINE void CopyRows(const Panel & p, const ColumnState & s, int begin, size_t n, const VF (&share)[kVectors]) {
    const DF df;
    constexpr size_t kRows = kVectors * kN;
    const ColumnTask & columns = p.task.columns;
    const float * weights = s.weights + static_cast<size_t>(begin) * kRows;
    for (size_t i = 0; i < kVectors; ++i) { hn::Store(share[i], df, s.factor + i * kN); }
    const auto copy = [&](size_t r, float * to) {
        for (size_t j = 0; j < n; ++j) { to[static_cast<size_t>(begin) + j] = weights[j * kRows + r] * s.factor[r]; }
    };
    const auto n_queries = static_cast<size_t>(p.task.n_queries);
    for (size_t r = 0; r < static_cast<size_t>(p.n); ++r) {
        const size_t t = static_cast<size_t>(p.first) + r;
        if (!columns.rows.empty()) { copy(r, columns.rows[p.head_index() * n_queries + t]); }
        if (!columns.last.empty() && t + 1 == n_queries) { copy(r, columns.last[p.head_index()]); }
    }
}

// planes: those of this head, then the group's.
struct HeadPlanes {
    float * sum;
    float * squares;
    float * largest;
    float * profile;
    float * group_squares;
};

template <size_t kVectors>
HWY_INLINE void AddPanelColumns(const Panel & p, const ColumnState & s, const HeadPlanes & planes) {
    const DF df;
    constexpr size_t kRows = kVectors * kN;
    const ColumnTask & columns = p.task.columns;
    const bool roots = columns.distance == HeadDistance::kBhattacharyya;
    const bool scaled = columns.distance == HeadDistance::kCosine || columns.distance == HeadDistance::kPearson;
    const int end = p.end(s);
    // Backwards: the weights written last are still in a near cache, and the next panel writes the first ones first.
    for (int begin = (end - 1) / kEntryBlock * kEntryBlock; begin >= 0 && end > 0; begin -= kEntryBlock) {
        const auto n = static_cast<size_t>(std::min(kEntryBlock, end - begin));
        const float * weights = s.weights + static_cast<size_t>(begin) * kRows;
        VF share[kVectors];
        BlockShares<kVectors>(s, begin, s.share, share);
        if (planes.sum != nullptr) {
            AddColumnSums<kVectors>(weights, n, planes.sum + begin,
                                    [&](size_t i, VF w) HWY_ATTR { return hn::Mul(w, share[i]); });
        }
        if (planes.squares != nullptr) {
            AddColumnSums<kVectors>(weights, n, planes.squares + begin, [&](size_t i, VF w) HWY_ATTR {
                const auto a = hn::Mul(w, share[i]);
                return hn::Mul(a, a);
            });
        }
        if (planes.largest != nullptr) { TakeColumnMaxima<kVectors>(weights, n, share, planes.largest + begin); }
        if (planes.profile != nullptr && roots) {
            AddColumnSums<kVectors>(weights, n, planes.profile + begin,
                                    [&](size_t i, VF w) HWY_ATTR { return hn::Sqrt(hn::Mul(w, share[i])); });
        } else if (planes.profile != nullptr) {
            VF unit[kVectors];
            BlockShares<kVectors>(s, begin, scaled ? s.unit_share : s.share, unit);
            AddColumnSums<kVectors>(weights, n, planes.profile + begin,
                                    [&](size_t i, VF w) HWY_ATTR { return hn::Mul(w, unit[i]); });
        }
        if (planes.group_squares != nullptr) {
            float * means = s.group_means + static_cast<size_t>(begin) * kRows;
            const auto of_group = hn::Set(df, 1.0F / static_cast<float>(p.task.n_group));
            for (size_t j = 0; j < (n + 3) / 4 * 4; ++j) {
                for (size_t i = 0; i < kVectors; ++i) {
                    float * mean = means + j * kRows + i * kN;
                    const auto a = hn::Mul(hn::Mul(hn::Load(df, weights + j * kRows + i * kN), share[i]), of_group);
                    hn::Store(p.head == 0 ? a : hn::Add(hn::Load(df, mean), a), df, mean);
                }
            }
            if (p.last_head) {
                AddColumnSums<kVectors>(means, n, planes.group_squares + begin,
                                        [](size_t, VF a) HWY_ATTR { return hn::Mul(a, a); });
            }
        }
        if (!columns.rows.empty() || !columns.last.empty()) { CopyRows<kVectors>(p, s, begin, n, share); }
    }
}

template <size_t kVectors, class Products>
void RunPanel(const Panel & p, const ColumnState & s, int span, const HeadPlanes & planes, double * numbers) {
    constexpr size_t kRows = kVectors * kN;
    Products products(p.task, kWidestPanel, s.of_products);
    StartPanel<kVectors>(p, s, products);
    const size_t n_parts = AttendPanel<kVectors>(p, s, span, products);
    FinishRows<kVectors>(p, s, numbers);
    AddPanelColumns<kVectors>(p, s, planes);
    if (p.task.head_dim_v == 0 && p.lane.log_sum == nullptr) { return; }
    for (size_t r = 0; r < static_cast<size_t>(p.n); ++r) {
        const size_t row =
            (static_cast<size_t>(p.first) + r) * static_cast<size_t>(p.task.n_group) + static_cast<size_t>(p.head);
        if (n_parts == 1) {
            StoreRow(p.task, p.lane, row, s.parts + 2 * kRows + r, kRows, s.largest[r], s.sum[r], nullptr);
        } else {
            merge_row(p.task, p.lane, row, {s.parts + r, n_parts, PartFloats(p.task, kRows), kRows});
        }
    }
}

// A strand of queries, panel by panel, head by head. planes: see n_planes(); numbers [heads][2].
template <class Products>
void ColumnUnit(const AttentionTask & task, const AttentionUnit & unit, float * planes, double * numbers, float * scratch) {
    const LaneView & lane = task.lanes[static_cast<size_t>(unit.lane)];
    const ColumnTask & columns = task.columns;
    const size_t width = plane_width(unit);
    const auto n_heads = static_cast<size_t>(unit.n_heads);
    const ColumnState s = MakeColumnState(task, unit.end, unit.span, scratch);
    float * next = planes;
    const auto take = [&](bool wanted, size_t n) {
        float * from = wanted ? next : nullptr;
        next += wanted ? n * width : 0;
        return from;
    };
    float * sum = take(!columns.sum.empty(), n_heads);
    float * squares = take(!columns.squares.empty(), n_heads);
    float * largest = take(!columns.largest.empty(), n_heads);
    float * profile = take(!columns.profile.empty(), n_heads);
    float * group_squares = take(!columns.group_squares.empty(), 1);
    std::fill(planes, next, 0.0F);

    constexpr auto kVector = static_cast<int>(kN);
    for (int first = unit.row; first < unit.row + unit.n_rows;) {
        const int left = unit.row + unit.n_rows - first;
        // Four vectors are two panels of two: one alone would wait for its own sums.
        const int n = left > 3 * kVector && left <= 4 * kVector ? 2 * kVector : std::min(left, 3 * kVector);
        for (size_t i = 0; i < n_heads; ++i) {
            const Panel panel{task, lane, first, n, unit.head + static_cast<int>(i), i + 1 == n_heads};
            const auto of_head = [&](float * plane) { return plane == nullptr ? nullptr : plane + i * width; };
            const HeadPlanes of_this{of_head(sum), of_head(squares), of_head(largest), of_head(profile), group_squares};
            if (n > 2 * kVector) {
                RunPanel<3, Products>(panel, s, unit.span, of_this, numbers + 2 * i);
            } else if (n > kVector) {
                RunPanel<2, Products>(panel, s, unit.span, of_this, numbers + 2 * i);
            } else {
                RunPanel<1, Products>(panel, s, unit.span, of_this, numbers + 2 * i);
            }
        }
        first += n;
    }
}

}  // namespace pith::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
