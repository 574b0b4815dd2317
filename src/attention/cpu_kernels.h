// cpu_kernels.h - what the instruction-set independent part of the CPU attention and its kernels share. Stage: attention.
#pragma once

#include <algorithm>
#include <cstddef>

#include "attention/cpu_attention.h"

namespace pith {

inline constexpr int kMaxDotRows = 16;  // up to so many rows: every key against all rows; above: tiles of rows
inline constexpr int kTileRows = 192;   // rows per unit of the tiled kernel: panels of 3 vectors, for any vector length
inline constexpr int kEntryBlock = 64;  // entries between two rescalings
inline constexpr float kLog2E = 1.44269504F;
inline constexpr float kLn2 = 0.693147181F;

// Result of a unit's rows: direct (out, log_sum set by the lane) or partial: per row maximum (base 2), sum, head_dim_v values.
inline size_t partial_row_floats(const AttentionTask & task) {
    return static_cast<size_t>(task.head_dim_v) + 2;
}

// Entries of the lane that query t sees.
inline int n_visible(const AttentionTask & task, const LaneView & lane, int t) {
    if (lane.positions == nullptr) { return std::max(0, lane.length - task.n_queries + 1 + t); }
    return static_cast<int>(std::upper_bound(lane.positions, lane.positions + lane.length, lane.query_positions[t]) -
                            lane.positions);
}

// Floats of scratch that a unit of the task needs.
size_t scratch_floats(const AttentionTask & task);

// Computes a unit. partial: nullptr writes the finished rows; else n_rows partial rows. scratch: 64-byte aligned.
void run_unit(const AttentionTask & task, const AttentionUnit & unit, float * partial, float * scratch);

}  // namespace pith
