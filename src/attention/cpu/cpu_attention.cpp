// cpu_attention.cpp - cutting the work, taking units, merging partial results.
#include "attention/cpu/cpu_attention.h"

#include <cmath>
#include <limits>
#include <new>
#include <thread>
#include <tuple>

#include "attention/cpu/cpu_kernels.h"

namespace pith {
namespace {

constexpr size_t kAlignment = 64;
constexpr int kMinSpan = 128;  // entries: a partial result costs as much memory traffic as a few of them
constexpr int kMaxSpan = 1024;

// Several for each of this machine's threads: so many jobs are left where units are computed together.
int wanted_jobs() {
    static const int n = 4 * static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
    return n;
}

// Enough to balance this machine's threads; however many of them take part, the same, so that the result is too.
int wanted_units() {
    return std::clamp(wanted_jobs(), 32, 256);
}

bool has_blocks(KvFormat format) {
    return format == KvFormat::kQ8_0 || format == KvFormat::kQ4_0;
}

// Entries per unit, so that all rows together make enough units.
int span_length(int64_t n_entries) {
    const int64_t span = (n_entries / wanted_units() + kEntryBlock - 1) / kEntryBlock * kEntryBlock;
    return static_cast<int>(std::clamp<int64_t>(span, kMinSpan, kMaxSpan));
}

int rows_per_tile(const AttentionTask & task) {
    return has_few_rows(task) ? task.n_rows() : kTileRows;
}

}  // namespace

bool can_attend(KvFormat k_format, KvFormat v_format, int head_dim, int head_dim_v) {
    const int block_k = has_blocks(k_format) ? 32 : 16;
    const int block_v = has_blocks(v_format) ? 32 : 16;
    return head_dim > 0 && head_dim_v >= 0 && head_dim % block_k == 0 && head_dim_v % block_v == 0;
}

void FreeAligned::operator()(float * p) const {
    ::operator delete[](p, std::align_val_t{kAlignment});
}

float * AlignedFloats::reserve(size_t n) {
    if (size_ < n) {
        data_.reset();
        data_.reset(static_cast<float *>(::operator new[](n * sizeof(float), std::align_val_t{kAlignment}, std::nothrow)));
        size_ = data_ != nullptr ? n : 0;
    }
    return data_.get();
}

void AttentionScratch::reserve(const AttentionPlan & plan) {
    partial_.reserve(plan.n_partial_);
}

float * AttentionScratch::of_thread(int ith, size_t n) {
    AlignedFloats & own = of_thread_[static_cast<size_t>(ith)];
    const size_t before = own.size_bytes();
    float * data = own.reserve(n);
    of_threads_bytes_.fetch_add(own.size_bytes() - before, std::memory_order_relaxed);  // modulo 2^64: it may shrink
    return data;
}

void AttentionPlan::make() {
    units_.clear();
    tiles_.clear();
    n_partial_ = 0;
    numbers_.clear();
    has_strands(task) ? make_strands() : make_spans();
    make_jobs();
    longest_ = 0;
    for (const AttentionUnit & unit : units_) { longest_ = std::max(longest_, unit.end); }
    if (n_unfinished_ < tiles_.size()) {
        unfinished_ = std::make_unique<std::atomic<int>[]>(tiles_.size());  // may throw: only then is there room
        n_unfinished_ = tiles_.size();
    }
    for (size_t i = 0; i < tiles_.size(); ++i) { unfinished_[i].store(tiles_[i].n_units, std::memory_order_relaxed); }
    next_.store(0, std::memory_order_relaxed);
    n_done_.store(0, std::memory_order_relaxed);
}

// Entries after which a row's result is a partial one: so many that the lane's sequence alone, were all its lanes of this
// length, would make enough units. Other sequences do not count, so that a lane is cut alike in any batch. Sessions that gather
// evidence must agree with those that do not to the bit, so this is the same with columns and without.
int AttentionPlan::span_of_rows(const LaneView & lane) const {
    const int n_rows = task.n_rows();
    const int tile_rows = rows_per_tile(task);
    const int n_peers = task.n_peers > 0 ? task.n_peers : static_cast<int>(task.lanes.size());
    int64_t n_entries = 0;  // over all tiles of rows
    for (int row = 0; row < n_rows; row += tile_rows) {
        n_entries += n_visible(task, lane, (std::min(row + tile_rows, n_rows) - 1) / task.n_group);
    }
    const int n_tiles = n_peers * ((n_rows + tile_rows - 1) / tile_rows);
    // Many tiles of rows balance by themselves.
    const bool balanced = !has_few_rows(task) && n_tiles >= wanted_units();
    return balanced ? std::numeric_limits<int>::max() : span_length(n_entries * n_peers);
}

// Tiles of rows by spans of entries.
void AttentionPlan::make_spans() {
    const int n_rows = task.n_rows();
    const int tile_rows = rows_per_tile(task);
    spans_.clear();
    for (const LaneView & lane : task.lanes) { spans_.push_back(span_of_rows(lane)); }
    first_units_.assign(task.lanes.size(), 0);
    // Tiles with the most to see first: the last to finish are then short.
    for (int row = (n_rows - 1) / tile_rows * tile_rows; row >= 0; row -= tile_rows) {
        for (int l = 0; l < static_cast<int>(task.lanes.size()); ++l) {
            const int span = spans_[static_cast<size_t>(l)];
            const int end_row = std::min(row + tile_rows, n_rows);
            const int seen = n_visible(task, task.lanes[static_cast<size_t>(l)], (end_row - 1) / task.n_group);
            const int begin = n_left_behind(task.lanes[static_cast<size_t>(l)], row / task.n_group);
            first_units_[static_cast<size_t>(l)] = static_cast<int>(units_.size());
            AttentionUnit unit;
            unit.lane = l;
            unit.row = row;
            unit.n_rows = end_row - row;
            unit.begin = begin;
            unit.end = seen;
            if (seen - begin <= span && !task.columns.any()) {
                units_.push_back(unit);
                continue;
            }
            const int n_spans = std::max(1, (seen - begin + span - 1) / span);
            unit.tile = static_cast<int>(tiles_.size());
            tiles_.push_back({static_cast<int>(units_.size()), n_spans});
            for (int s = 0; s < n_spans; ++s) {
                unit.begin = begin + s * span;
                unit.end = std::min(seen, unit.begin + span);
                unit.partial = n_partial_;
                n_partial_ += partial_floats(task, unit);
                units_.push_back(unit);
            }
        }
    }
}

// Strands of whole panels, which see all entries.
void AttentionPlan::make_strands() {
    const ColumnTask & columns = task.columns;
    const int n_heads = columns.group_squares.empty() ? 1 : task.n_group;  // a mean over the group wants all of it
    const int n_panels = (task.n_queries + kWidestPanel - 1) / kWidestPanel;
    const int n_tiles = static_cast<int>(task.lanes.size()) * (task.n_group / n_heads);
    const int n_strands = std::clamp((wanted_units() + n_tiles - 1) / n_tiles, 1, n_panels);
    shortest_span_ = std::numeric_limits<int>::max();
    for (int l = 0; l < static_cast<int>(task.lanes.size()); ++l) {
        const int span =
            task.head_dim_v > 0 ? span_of_rows(task.lanes[static_cast<size_t>(l)]) : std::numeric_limits<int>::max();
        shortest_span_ = std::min(shortest_span_, span);
        for (int head = 0; head < task.n_group; head += n_heads) {
            const auto tile = static_cast<int>(tiles_.size());
            tiles_.push_back({static_cast<int>(units_.size()), n_strands});
            for (int s = 0; s < n_strands; ++s) {
                AttentionUnit unit;
                unit.lane = l;
                unit.row = n_panels * s / n_strands * kWidestPanel;
                unit.n_rows = std::min(n_panels * (s + 1) / n_strands * kWidestPanel, task.n_queries) - unit.row;
                unit.end = n_visible(task, task.lanes[static_cast<size_t>(l)], unit.row + unit.n_rows - 1);
                unit.tile = tile;
                unit.partial = n_partial_;
                unit.head = head;
                unit.n_heads = n_heads;
                unit.span = span;
                unit.numbers = 2 * static_cast<size_t>(n_heads) * units_.size();
                n_partial_ += static_cast<size_t>(n_planes(columns, n_heads)) * plane_width(unit);
                units_.push_back(unit);
            }
        }
    }
    numbers_.assign(2 * static_cast<size_t>(n_heads) * units_.size(), 0.0);
}

// Units in the order of their making, each by itself, but for those whose entries several lanes share.
void AttentionPlan::make_jobs() {
    order_.clear();
    jobs_.clear();
    sharing_.clear();
    const auto n_units = static_cast<int>(units_.size());
    if (has_few_rows(task) && !task.columns.any()) {
        const int most_lanes = std::min(kMaxDotRows / task.n_rows(), n_units / wanted_jobs());
        if (most_lanes > 1) { add_shared_jobs(most_lanes); }
    }
    size_t next = 0;  // of the lanes that share, in their order
    for (int i = 0; i < n_units; ++i) {
        const AttentionUnit & unit = units_[static_cast<size_t>(i)];
        while (next < sharing_.size() && sharing_[next].lane < unit.lane) { ++next; }
        const bool is_shared = next < sharing_.size() && sharing_[next].lane == unit.lane &&
                               i < first_units_[static_cast<size_t>(unit.lane)] + sharing_[next].n_spans;
        if (is_shared) { continue; }
        jobs_.push_back(static_cast<int>(order_.size()));
        order_.push_back(i);
    }
    jobs_.push_back(static_cast<int>(order_.size()));
}

// Afterwards sharing_ has those lanes, ascending, whose spans are dealt with.
void AttentionPlan::add_shared_jobs(int most_lanes) {
    for (size_t l = 0; l < task.lanes.size(); ++l) {
        const LaneView & lane = task.lanes[l];
        // Queries that stand among the entries may not see all that is shared.
        if (lane.base == 0 || lane.positions != nullptr) { continue; }
        // The last span is the lane's own: its queries' entries are in it.
        const int n_spans = std::min(lane.n_shared, lane.length - task.n_queries) / spans_[l];
        if (n_spans > 0) { sharing_.push_back({lane.base, spans_[l], n_spans, static_cast<int>(l)}); }
    }
    std::ranges::sort(sharing_, {},
                      [](const SharingLane & one) { return std::tie(one.base, one.span, one.n_spans, one.lane); });
    for (size_t begin = 0, end = 0; begin < sharing_.size(); begin = end) {
        while (end < sharing_.size() && sharing_[begin].shares_with(sharing_[end])) { ++end; }
        // As even as can be, and not one by one.
        const size_t n_groups = (end - begin + static_cast<size_t>(most_lanes) - 1) / static_cast<size_t>(most_lanes);
        for (size_t g = 0; g < n_groups; ++g) {
            const size_t first = begin + (end - begin) * g / n_groups;
            const size_t last = begin + (end - begin) * (g + 1) / n_groups;
            for (int s = 0; s < sharing_[begin].n_spans; ++s) {
                jobs_.push_back(static_cast<int>(order_.size()));
                for (size_t i = first; i < last; ++i) {
                    order_.push_back(first_units_[static_cast<size_t>(sharing_[i].lane)] + s);
                }
            }
        }
    }
    std::ranges::sort(sharing_, {}, &SharingLane::lane);
}

// Jobs that a thread takes at once, `next` being the first that is left: fewer and fewer, so that all end together.
int AttentionPlan::run_length(int next, int n_threads) const {
    constexpr int kShares = 4;  // of what is left, for each thread
    const int left = n_jobs() - next;
    return has_few_rows(task) ? std::max(1, left / (kShares * n_threads)) : 1;
}

void attend_part(AttentionPlan & plan, AttentionScratch & scratch, int ith, int n_threads) {
    float * own = scratch.of_thread(ith, scratch_floats(plan.task, plan.longest_, plan.shortest_span_));
    float * partial = scratch.partial_.data();
    if (own == nullptr || (partial == nullptr && plan.n_partial_ > 0)) { return; }
    const int n_jobs = plan.n_jobs();
    const auto run = [&](int i, bool reads_on) {
        const std::span<const int> units = plan.job(i);
        const int after = reads_on ? plan.job(i + 1).front() : -1;
        run_units(plan.task, {plan.units_, units, after}, partial, plan.numbers_.data(), own);
        plan.n_done_.fetch_add(static_cast<int>(units.size()), std::memory_order_relaxed);
        for (const int u : units) {
            const int tile = plan.units_[static_cast<size_t>(u)].tile;
            if (tile < 0) { continue; }
            // Release what this thread wrote, acquire what the others did.
            const bool is_last = plan.unfinished_[static_cast<size_t>(tile)].fetch_sub(1, std::memory_order_acq_rel) == 1;
            if (is_last) { plan.merge(plan.tiles_[static_cast<size_t>(tile)], partial); }
        }
    };
    int begin = plan.next_.load(std::memory_order_relaxed);
    while (begin < n_jobs && !(plan.cancel != nullptr && plan.cancel->load(std::memory_order_relaxed))) {
        const int end = begin + plan.run_length(begin, n_threads);
        if (!plan.next_.compare_exchange_weak(begin, end, std::memory_order_relaxed)) { continue; }
        for (int i = begin; i < end; ++i) { run(i, i + 1 < end); }
        begin = plan.next_.load(std::memory_order_relaxed);
    }
}

void merge_row(const AttentionTask & task, const LaneView & lane, size_t row, const RowParts & parts) {
    const size_t t = row / static_cast<size_t>(task.n_group);
    const size_t g = row % static_cast<size_t>(task.n_group);
    float * out = lane.out + t * task.out_query_stride + g * task.out_head_stride;
    const auto dv = static_cast<size_t>(task.head_dim_v);
    float largest = -std::numeric_limits<float>::infinity();
    for (size_t s = 0; s < parts.n; ++s) { largest = std::max(largest, parts.first[s * parts.stride]); }
    std::fill(out, out + dv, 0.0F);
    float sum = 0;
    for (size_t s = 0; s < parts.n; ++s) {
        const float * part = parts.first + s * parts.stride;
        if (part[parts.step] == 0) { continue; }
        const float weight = std::exp2(part[0] - largest);
        sum += weight * part[parts.step];
        for (size_t c = 0; c < dv; ++c) { out[c] += weight * part[(2 + c) * parts.step]; }
    }
    const float scale = add_sink(lane, g, largest, sum);
    const float inverse = sum > 0 ? scale / sum : 0.0F;
    for (size_t c = 0; c < dv; ++c) { out[c] *= inverse; }
    if (lane.log_sum != nullptr) { lane.log_sum[row] = (largest + std::log2(sum)) * kLn2; }
}

void AttentionPlan::merge(const SharedTile & tile, float * partial) const {
    const std::span<const AttentionUnit> units(units_.data() + tile.first_unit, static_cast<size_t>(tile.n_units));
    if (has_strands(task)) { return add_strand_columns(task, units, partial, numbers_.data()); }
    const AttentionUnit & first = units.front();
    const LaneView & lane = task.lanes[static_cast<size_t>(first.lane)];
    for (int r = 0; r < first.n_rows; ++r) {
        const float * row = partial + first.partial + static_cast<size_t>(r) * partial_row_floats(task);
        // All spans but the last are as long as the first.
        merge_row(task, lane, static_cast<size_t>(first.row + r), {row, units.size(), partial_floats(task, first), 1});
    }
    if (task.columns.any()) { add_row_columns(task, units, partial); }
}

}  // namespace pith
