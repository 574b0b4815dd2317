// cpu_attention.cpp - cutting the work, taking units, merging partial results.
#include "attention/cpu_attention.h"

#include <cmath>
#include <limits>
#include <new>

#include "attention/cpu_kernels.h"

namespace pith {
namespace {

constexpr size_t kAlignment = 64;
constexpr int kWantedUnits = 64;  // enough to balance the threads of a large machine
constexpr int kMinSpan = 128;     // entries: a partial result costs as much memory traffic as a few of them
constexpr int kMaxSpan = 1024;

bool has_blocks(KvFormat format) {
    return format == KvFormat::kQ8_0 || format == KvFormat::kQ4_0;
}

// Entries per unit, so that all rows together make enough units.
int span_length(int64_t n_entries) {
    const int64_t span = (n_entries / kWantedUnits + kEntryBlock - 1) / kEntryBlock * kEntryBlock;
    return static_cast<int>(std::clamp<int64_t>(span, kMinSpan, kMaxSpan));
}

}  // namespace

bool can_attend(KvFormat k_format, KvFormat v_format, int head_dim, int head_dim_v) {
    const int block_k = has_blocks(k_format) ? 32 : 16;
    const int block_v = has_blocks(v_format) ? 32 : 16;
    return head_dim > 0 && head_dim_v > 0 && head_dim % block_k == 0 && head_dim_v % block_v == 0;
}

void FreeAligned::operator()(float * p) const {
    ::operator delete[](p, std::align_val_t{kAlignment});
}

float * AlignedFloats::reserve(size_t n) {
    if (size_ < n) {
        data_.reset();
        data_.reset(static_cast<float *>(::operator new[](n * sizeof(float), std::align_val_t{kAlignment})));
        size_ = n;
    }
    return data_.get();
}

void AttentionScratch::reserve(const AttentionPlan & plan) {
    partial_.reserve(plan.n_partial_);
}

void AttentionPlan::make() {
    units_.clear();
    tiles_.clear();
    n_partial_ = 0;
    const int n_rows = task.n_rows();
    const bool few = n_rows <= kMaxDotRows;
    const int tile_rows = few ? n_rows : kTileRows;

    int64_t n_entries = 0;  // over all tiles of rows
    for (const LaneView & lane : task.lanes) {
        for (int row = 0; row < n_rows; row += tile_rows) {
            n_entries += n_visible(task, lane, (std::min(row + tile_rows, n_rows) - 1) / task.n_group);
        }
    }
    const int n_tiles = static_cast<int>(task.lanes.size()) * ((n_rows + tile_rows - 1) / tile_rows);
    // Many tiles of rows balance by themselves.
    const int span = !few && n_tiles >= kWantedUnits ? std::numeric_limits<int>::max() : span_length(n_entries);

    // Tiles with the most to see first: the last to finish are then short.
    for (int row = (n_rows - 1) / tile_rows * tile_rows; row >= 0; row -= tile_rows) {
        for (int l = 0; l < static_cast<int>(task.lanes.size()); ++l) {
            const int end_row = std::min(row + tile_rows, n_rows);
            const int seen = n_visible(task, task.lanes[static_cast<size_t>(l)], (end_row - 1) / task.n_group);
            AttentionUnit unit{l, row, end_row - row, 0, seen, -1, 0};
            if (seen <= span) {
                units_.push_back(unit);
                continue;
            }
            const int n_spans = (seen + span - 1) / span;
            unit.tile = static_cast<int>(tiles_.size());
            tiles_.push_back({static_cast<int>(units_.size()), n_spans});
            for (int s = 0; s < n_spans; ++s) {
                unit.begin = s * span;
                unit.end = std::min(seen, unit.begin + span);
                unit.partial = n_partial_;
                n_partial_ += static_cast<size_t>(unit.n_rows) * partial_row_floats(task);
                units_.push_back(unit);
            }
        }
    }
    if (n_unfinished_ < tiles_.size()) {
        n_unfinished_ = tiles_.size();
        unfinished_ = std::make_unique<std::atomic<int>[]>(n_unfinished_);
    }
    for (size_t i = 0; i < tiles_.size(); ++i) { unfinished_[i].store(tiles_[i].n_units, std::memory_order_relaxed); }
    next_.store(0, std::memory_order_relaxed);
}

void attend_part(AttentionPlan & plan, AttentionScratch & scratch, int ith) {
    float * own = scratch.of_thread_[static_cast<size_t>(ith)].reserve(scratch_floats(plan.task));
    float * partial = scratch.partial_.data();
    const int n_units = static_cast<int>(plan.units_.size());
    for (int i = plan.next_.fetch_add(1, std::memory_order_relaxed); i < n_units;
         i = plan.next_.fetch_add(1, std::memory_order_relaxed)) {
        const AttentionUnit & unit = plan.units_[static_cast<size_t>(i)];
        run_unit(plan.task, unit, unit.tile < 0 ? nullptr : partial + unit.partial, own);
        if (unit.tile < 0) { continue; }
        // Release what this thread wrote, acquire what the others did.
        const auto tile = static_cast<size_t>(unit.tile);
        if (plan.unfinished_[tile].fetch_sub(1, std::memory_order_acq_rel) == 1) { plan.merge(plan.tiles_[tile], partial); }
    }
}

// out = sum of 2^(m_s - m) values_s / sum of 2^(m_s - m) sum_s, over spans s in order.
void AttentionPlan::merge(const SharedTile & tile, const float * partial) const {
    const AttentionUnit & first = units_[static_cast<size_t>(tile.first_unit)];
    const LaneView & lane = task.lanes[static_cast<size_t>(first.lane)];
    const size_t stride = partial_row_floats(task);
    const size_t span_stride = stride * static_cast<size_t>(first.n_rows);
    const float * base = partial + first.partial;
    for (int r = 0; r < first.n_rows; ++r) {
        const float * row = base + static_cast<size_t>(r) * stride;
        float largest = -std::numeric_limits<float>::infinity();
        for (int s = 0; s < tile.n_units; ++s) { largest = std::max(largest, row[static_cast<size_t>(s) * span_stride]); }
        const auto t = static_cast<size_t>((first.row + r) / task.n_group);
        const auto g = static_cast<size_t>((first.row + r) % task.n_group);
        float * out = lane.out + t * task.out_query_stride + g * task.out_head_stride;
        const auto dv = static_cast<size_t>(task.head_dim_v);
        std::fill(out, out + dv, 0.0F);
        float sum = 0;
        for (int s = 0; s < tile.n_units; ++s) {
            const float * part = row + static_cast<size_t>(s) * span_stride;
            if (part[1] == 0) { continue; }
            const float weight = std::exp2(part[0] - largest);
            sum += weight * part[1];
            for (size_t c = 0; c < dv; ++c) { out[c] += weight * part[2 + c]; }
        }
        const float inverse = sum > 0 ? 1.0F / sum : 0.0F;
        for (size_t c = 0; c < dv; ++c) { out[c] *= inverse; }
        if (lane.log_sum != nullptr) {
            lane.log_sum[t * static_cast<size_t>(task.n_group) + g] = (largest + std::log2(sum)) * kLn2;
        }
    }
}

}  // namespace pith
