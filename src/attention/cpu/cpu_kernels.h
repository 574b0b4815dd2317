// cpu_kernels.h - what the instruction-set independent part of the CPU attention and its kernels share. Stage: attention.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

#include "attention/cpu/cpu_attention.h"

namespace pith {

inline constexpr int kMaxDotRows = 16;  // up to so many rows: every key against all rows; above: tiles of rows
inline constexpr int kTileRows = 192;   // rows per unit of the tiled kernel: panels of 3 vectors, for any vector length
inline constexpr int kWidestPanel = 48;
inline constexpr int kEntryBlock = 64;  // entries between two rescalings
static_assert(HiddenLane::kAlign == kEntryBlock);
inline constexpr float kLog2E = 1.44269504F;
inline constexpr float kLn2 = 0.693147181F;

// Result of a unit's rows: direct (out, log_sum set by the lane) or partial: per row maximum (base 2), sum, head_dim_v values.
inline size_t partial_row_floats(const AttentionTask & task) {
    return static_cast<size_t>(task.head_dim_v) + 2;
}

// Partial results of a row, `stride` floats apart: its maximum, sum and values, `step` floats apart.
struct RowParts {
    const float * first;
    size_t n;
    size_t stride;
    size_t step;
};
// out = sum of 2^(m_s - m) values_s / sum of 2^(m_s - m) sum_s, over parts s in order.
void merge_row(const AttentionTask & task, const LaneView & lane, size_t row, const RowParts & parts);

// A row's maximum (base 2) and sum with its head's sink. Returns what weights and values relative to the old maximum are
// multiplied by.
inline float add_sink(const LaneView & lane, size_t g, float & largest, float & sum) {
    if (lane.sinks == nullptr) { return 1.0F; }
    const float sink = lane.sinks[g] * kLog2E;
    if (sink <= largest) {
        sum += std::exp2(sink - largest);
        return 1.0F;
    }
    const float scale = std::exp2(largest - sink);
    sum = sum * scale + 1.0F;
    largest = sink;
    return scale;
}

// Whether every key meets all rows at once. Hidden entries are for the kernels of many rows only.
inline bool has_few_rows(const AttentionTask & task) {
    return task.n_rows() <= kMaxDotRows && !task.hides;
}

// Whether rows are dealt out as strands of queries, head by head, and their columns added up in planes.
inline bool has_strands(const AttentionTask & task) {
    return task.columns.any() && !has_few_rows(task);
}

// ---- columns of few rows: behind the partial rows of a unit ----

inline int n_blocks(const AttentionUnit & unit) {
    return (unit.end - unit.begin + kEntryBlock - 1) / kEntryBlock;
}
// Weights of a unit's rows [block][row][kEntryBlock], each block's relative to its own maxima; then those [block][row].
inline size_t weights_offset(const AttentionTask & task, const AttentionUnit & unit) {
    const size_t rows = static_cast<size_t>(unit.n_rows) * partial_row_floats(task);
    return (rows + 15) / 16 * 16;
}
inline size_t maxima_offset(const AttentionTask & task, const AttentionUnit & unit) {
    return weights_offset(task, unit) + static_cast<size_t>(n_blocks(unit)) * static_cast<size_t>(unit.n_rows) * kEntryBlock;
}
// Floats of a unit of few rows.
inline size_t partial_floats(const AttentionTask & task, const AttentionUnit & unit) {
    const size_t rows = static_cast<size_t>(unit.n_rows) * partial_row_floats(task);
    if (!task.columns.any()) { return rows; }
    return (maxima_offset(task, unit) + static_cast<size_t>(n_blocks(unit) * unit.n_rows) + 15) / 16 * 16;
}

// ---- columns of many rows: planes of a unit, [plane][plane_width] ----

inline size_t plane_width(const AttentionUnit & unit) {
    return static_cast<size_t>(unit.end + kEntryBlock - 1) / kEntryBlock * kEntryBlock;
}
// Planes: for each kind of sum, or maximum, one a head, then one of group squares.
inline int n_planes(const ColumnTask & columns, int n_heads) {
    const int kinds = int{!columns.sum.empty()} + int{!columns.squares.empty()} + int{!columns.largest.empty()} +
                      int{!columns.profile.empty()};
    return kinds * n_heads + int{!columns.group_squares.empty()};
}

// Entries of the lane that query t sees.
inline int n_visible(const AttentionTask & task, const LaneView & lane, int t) {
    if (lane.positions == nullptr) { return std::max(0, lane.length - task.n_queries + 1 + t); }
    return static_cast<int>(std::upper_bound(lane.positions, lane.positions + lane.length, lane.query_positions[t]) -
                            lane.positions);
}

// Entries of the lane that query t, and those behind it, no longer see, as a multiple of kEntryBlock.
inline int n_left_behind(const LaneView & lane, int t) {
    if (lane.hidden == nullptr || !lane.hidden->ascending) { return 0; }
    const auto & hidden = lane.hidden->hidden;
    const auto seen = std::upper_bound(hidden.begin(), hidden.end(), lane.query_positions[t]);
    return static_cast<int>(seen - hidden.begin()) / kEntryBlock * kEntryBlock;
}

// Whether a row of probabilities is as even over `length` entries as rounding can tell, so that it has no direction from its
// mean; squares: of the distances to it. (The sum of the squared probabilities is at least 1 / length.)
inline bool is_even(double squares, int length) {
    return squares <= 1e-12 / length;
}

// Adds up the columns of few rows, whose spans' weights become probabilities. partial: of all units.
void add_row_columns(const AttentionTask & task, std::span<const AttentionUnit> spans, float * partial);
// Adds the strands' planes and numbers to the results.
void add_strand_columns(const AttentionTask & task, std::span<const AttentionUnit> strands, const float * partial,
                        const double * numbers);

// Floats of scratch that products of n_rows rows with blocks of entries need: see ProductSpace.
inline size_t product_floats(const AttentionTask & task, size_t n_rows) {
    const auto head_dim = static_cast<size_t>(task.head_dim);
    const auto head_dim_v = static_cast<size_t>(task.head_dim_v);
    return (n_rows + kEntryBlock) * head_dim + kEntryBlock * head_dim_v + n_rows + 2 * kEntryBlock +
           (kEntryBlock / 2 + 1) * kWidestPanel + 2 * std::max(head_dim, head_dim_v);
}

// Floats of scratch that a unit of the task needs, which sees at most `longest` entries, a strand's in spans of `span`.
size_t scratch_floats(const AttentionTask & task, int longest, int span);

// A unit, or several of few rows whose lanes share its entries, kMaxDotRows rows at most together; and the one that the same
// thread computes after them, if it is known: its first keys are asked for in time.
struct UnitsInRun {
    std::span<const AttentionUnit> all;
    std::span<const int> which;  // of them
    int after = -1;              // -1: not known

    const AttentionUnit & unit(size_t i = 0) const { return all[static_cast<size_t>(which[i])]; }
    const AttentionUnit * next() const { return after < 0 ? nullptr : &all[static_cast<size_t>(after)]; }
};

// Where a unit's results go: its n_rows partial rows, and for columns what is said above. nullptr: its rows are finished.
inline float * partial_of(const AttentionUnit & unit, float * partial) {
    return unit.tile < 0 ? nullptr : partial + unit.partial;
}

// Computes them. partial, numbers: of all units. scratch: 64-byte aligned.
void run_units(const AttentionTask & task, const UnitsInRun & in_run, float * partial, double * numbers, float * scratch);

}  // namespace pith
