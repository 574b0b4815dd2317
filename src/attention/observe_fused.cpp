// observe_fused.cpp - packing, blocks of rows, merging; the operations of the fused observation.
#include "attention/observe_fused.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <deque>
#include <memory>
#include <numbers>
#include <numeric>
#include <utility>
#include <vector>

#include "attention/key_packer.h"
#include "attention/observe_kernel.h"

namespace pith {
namespace {

constexpr int kSliceQueries = 8;   // a slice holds at least as many, where there are any
constexpr int kMaxBlockRows = 32;  // rows of scores at a time, but for a very large group: keys are read once for all of them
constexpr int kMaximum = 16;       // floats of one row's maxima

// A tensor's data from the next aligned float on; the tensor has room for the difference.
float * aligned(const ggml_tensor * tensor) {
    const size_t past = reinterpret_cast<uintptr_t>(tensor->data) % kScratchAlignment;
    return static_cast<float *>(tensor->data) + (kScratchAlignment - past) % kScratchAlignment / sizeof(float);
}

ggml_tensor * make_operation(ggml_context * ctx, int64_t n_floats, ggml_tensor * source, ggml_custom_op_t run, void * data) {
    ggml_tensor * args[] = {source};
    return ggml_custom_4d(ctx, GGML_TYPE_F32, n_floats + static_cast<int64_t>(kScratchAlignment / sizeof(float)), 1, 1, 1, args,
                          1, run, GGML_N_TASKS_MAX, data);
}

int64_t tiles_of(int64_t n_entries) {
    return (n_entries + kTileEntries - 1) / kTileEntries;
}

// What all operations of one observation read and write.
struct Job {
    const RaggedCache & cache;
    int seq;
    int layer;
    const float * queries;  // [n][H][d]
    int n_queries;
    const ObserveWants & wants;
    Observed & out;
    int64_t row_floats;
    std::atomic<bool> no_memory = false;

    const CacheShape & shape() const { return cache.layout().shape; }
    int length(int kv_head) const { return cache.length(cache.lane(seq, layer, kv_head)); }
    // Rows of sums that a slice makes: [G] for each kind per query head, then one for the group.
    int n_planes() const {
        const int per_head = int{wants.column_sum} + int{wants.head_sq} + int{wants.profile.has_value()};
        return per_head * shape().n_group + int{wants.group_sq};
    }
    RowForm form() const { return wants.profile == HeadDistance::kBhattacharyya ? RowForm::kRoots : RowForm::kPlain; }
    bool needs_more() const { return wants.entropy || wants.profile == HeadDistance::kCosine; }
    int block_queries(int64_t n_tiles) const {
        const int n_group = shape().n_group;
        const int64_t rows = std::clamp<int64_t>(row_floats / (n_tiles * kTileEntries), kRowGroup, kMaxBlockRows);
        return static_cast<int>(std::max<int64_t>(rows / n_group, 1));
    }
};

struct Lane {
    int kv_head = 0;
    int length = 0;
    int64_t first_tile = 0;  // in the packed keys
    int64_t n_tiles = 0;
    int first_unit = 0;
    int n_units = 0;
};

// One slice of the queries against one lane.
struct Unit {
    int lane = 0;                   // in the wave
    int first = 0;                  // query
    std::vector<int> visible;       // [n] entries each query sees, at least 1, ascending
    int64_t n_tiles = 0;            // that the last one sees
    int64_t sums = 0;               // offset of its planes, [n_tiles · kTileEntries] each
    std::vector<double> entropy;    // [G]
    std::vector<double> unit_mean;  // [G] what every entry of the lane loses: centred rows only
};

// KV heads whose packed keys fit together.
struct Wave {
    explicit Wave(Job & of) : job(of) {}
    Job & job;
    std::vector<Lane> lanes;
    std::vector<Unit> units;
    int64_t n_tiles = 0;
    int64_t n_sums = 0;
    std::atomic<size_t> next = 0;  // unit to deal out
};

// ---- packing ----

void run_pack(ggml_tensor * dst, int ith, int nth, void * data) {
    const auto & wave = *static_cast<const Wave *>(data);
    Job & job = wave.job;
    KeyPacker packer(job.cache.k(job.layer));
    if (!packer.ready()) {
        job.no_memory = true;
        return;
    }
    const int64_t begin = wave.n_tiles * ith / nth;
    const int64_t end = wave.n_tiles * (ith + 1) / nth;
    const int64_t tile_floats = int64_t{job.shape().head_dim} * kTileEntries;
    for (const Lane & lane : wave.lanes) {
        const int64_t last = std::min(end, lane.first_tile + lane.n_tiles);
        for (int64_t tile = std::max(begin, lane.first_tile); tile < last; ++tile) {
            const auto first = static_cast<int>((tile - lane.first_tile) * kTileEntries);
            packer.pack(job.cache.cell(job.seq, lane.kv_head, first), std::min(kTileEntries, lane.length - first),
                        aligned(dst) + tile * tile_floats);
        }
    }
}

// ---- rows ----

// Blocks of rows of one unit after another, in one thread's memory. Row g · n_block + i is query i of the block in head g.
class RowBlocks {
public:
    RowBlocks(Job & job, const Wave & wave) : job_(job), group_(job.shape().n_group) {
        int64_t n_queries = 0;
        int64_t n_scores = 0;
        for (const Unit & unit : wave.units) {
            const int64_t rows = padded_rows(job.block_queries(unit.n_tiles));
            n_queries = std::max(n_queries, rows * job.shape().head_dim);
            n_scores = std::max(n_scores, rows * stride_of(unit));
            n_rows_ = std::max(n_rows_, rows);
        }
        memory_ = std::make_unique<Scratch>(n_queries + n_scores + n_rows_ * (kMaximum + kNumbers));
        queries_ = memory_->data();
        if (!ready()) { return; }
        scores_ = queries_ + n_queries;
        maxima_ = scores_ + n_scores;
        weights_ = maxima_ + n_rows_ * kMaximum;
        squared_weights_ = weights_ + n_rows_;
        unit_weights_ = squared_weights_ + n_rows_;
        visible_ = reinterpret_cast<int *>(unit_weights_ + n_rows_);
    }
    bool ready() const { return queries_ != nullptr; }

    void run(const float * tiles, const Lane & lane, Unit & unit, float * sums) {
        lane_ = &lane;
        unit_ = &unit;
        stride_ = stride_of(unit);
        std::fill_n(sums, job_.n_planes() * unit.n_tiles * kTileEntries, 0.0F);
        const int n = static_cast<int>(unit.visible.size());
        const int step = job_.block_queries(unit.n_tiles);
        for (first_ = 0; first_ < n; first_ += step) {
            n_block_ = std::min(step, n - first_);
            score(tiles);
            normalise();
            add_sums(sums);
            copy_rows();
        }
    }

private:
    static constexpr int kNumbers = 4;  // per row, beside its maxima

    int64_t padded_rows(int n_queries) const { return (int64_t{n_queries} * group_ + kRowGroup - 1) / kRowGroup * kRowGroup; }
    // A few floats more than the row: rows a power of two apart would meet in the same sets of a cache.
    static int64_t stride_of(const Unit & unit) { return unit.n_tiles * kTileEntries + kTileEntries / 2; }
    int visible(int i) const { return unit_->visible[static_cast<size_t>(first_ + i)]; }
    int64_t n_entries() const { return tiles_of(visible(n_block_ - 1)) * kTileEntries; }
    int n_rows() const { return n_block_ * group_; }
    int power() const { return job_.form() == RowForm::kRoots ? 2 : 1; }

    void score(const float * tiles) {
        const int d = job_.shape().head_dim;
        const auto rows = static_cast<int>(padded_rows(n_block_));
        std::fill_n(queries_, int64_t{rows} * d, 0.0F);
        std::fill_n(visible_, rows, static_cast<int>(n_entries()));
        const float scale = std::numbers::log2e_v<float> / std::sqrt(static_cast<float>(d));
        for (int row = 0; row < n_rows(); ++row) {
            const int64_t query = unit_->first + first_ + row % n_block_;
            const int head = lane_->kv_head * group_ + row / n_block_;
            const float * from = job_.queries + (query * job_.shape().n_heads() + head) * d;
            float * to = queries_ + int64_t{row / kRowGroup} * kRowGroup * d + row % kRowGroup;
            for (int c = 0; c < d; ++c) { to[c * kRowGroup] = from[c] * scale; }
            visible_[row] = visible(row % n_block_);
        }
        score_rows({tiles, queries_, visible_, static_cast<int>(n_entries() / kTileEntries), rows / kRowGroup, d, stride_,
                    scores_, maxima_});
    }

    void normalise() {
        for (int row = 0; row < n_rows(); ++row) {
            const RowSums sums = exponentiate(scores_ + row * stride_, n_entries(), maxima_ + int64_t{row} * kMaximum,
                                              job_.form(), job_.needs_more());
            weights_[row] = static_cast<float>(1.0 / sums.sum);
            squared_weights_[row] = weights_[row] * weights_[row];
            const auto g = static_cast<size_t>(row / n_block_);
            // p = 2^x / sum, so that -Σ p log p = log sum - log 2 · Σ p·x.
            if (job_.wants.entropy) { unit_->entropy[g] += std::log(sums.sum) - std::numbers::ln2 * sums.weighted / sums.sum; }
            if (job_.wants.profile) { unit_weights_[row] = unit_weight(row, g, sums); }
        }
    }

    // What the row's numbers are multiplied by to be what the distance wants.
    float unit_weight(int row, size_t g, const RowSums & sums) {
        switch (*job_.wants.profile) {
            case HeadDistance::kCosine:
                return static_cast<float>(1.0 / std::sqrt(sums.squares));
            case HeadDistance::kBhattacharyya:
                return static_cast<float>(1.0 / std::sqrt(sums.sum));
            case HeadDistance::kJensenShannon:
            case HeadDistance::kEuclidean:
                return weights_[row];
            case HeadDistance::kPearson:
                break;
        }
        // Every row sums to 1, so its mean over the lane is 1 / length; entries it does not see are 0.
        const float mean = 1.0F / static_cast<float>(lane_->length);
        const int n_visible = visible(row % n_block_);
        const double squares = centred_squares(scores_ + row * stride_, n_visible, power(), weights_[row], mean) +
                               static_cast<double>(lane_->length - n_visible) * double{mean} * double{mean};
        if (squares == 0) { return 0.0F; }
        unit_->unit_mean[g] += double{mean} / std::sqrt(squares);
        return static_cast<float>(double{weights_[row]} / std::sqrt(squares));
    }

    void add_sums(float * plane) const {
        const int64_t width = unit_->n_tiles * kTileEntries;
        const auto add = [&](int of_power, const float * weights) {
            for (int g = 0; g < group_; ++g, plane += width) {
                const int row = g * n_block_;
                add_weighted({scores_ + row * stride_, stride_, n_block_, n_entries()}, of_power, weights + row, plane);
            }
        };
        const ObserveWants & wants = job_.wants;
        if (wants.column_sum) { add(power(), weights_); }
        if (wants.head_sq) { add(2 * power(), squared_weights_); }
        if (wants.profile) { add(1, unit_weights_); }
        if (!wants.group_sq) { return; }
        float * const shares = squared_weights_;  // no longer needed
        for (int row = 0; row < n_rows(); ++row) { shares[row] = weights_[row] / static_cast<float>(group_); }
        add_group_squares({scores_, stride_, n_block_, n_entries()}, group_, power(), shares, plane);
    }

    // The rows themselves, each asked for by its own query only.
    void copy_rows() const {
        if (!job_.wants.rows && !job_.wants.last) { return; }
        for (int row = 0; row < n_rows(); ++row) {
            const int query = unit_->first + first_ + row % n_block_;
            const int head = lane_->kv_head * group_ + row / n_block_;
            const auto copy = [&](std::span<float> to) {
                scale_row(scores_ + row * stride_, visible(row % n_block_), power(), weights_[row], to.data());
            };
            if (job_.wants.rows) { copy(job_.out.rows.row(head * job_.n_queries + query)); }
            if (job_.wants.last && query == job_.n_queries - 1) { copy(job_.out.last.row(head)); }
        }
    }

    Job & job_;
    int group_;
    int64_t n_rows_ = 0;
    std::unique_ptr<Scratch> memory_;
    float * queries_ = nullptr;  // [row groups][d][kRowGroup]
    float * scores_ = nullptr;   // [rows][stride]
    float * maxima_ = nullptr;   // [rows][kMaximum]
    float * weights_ = nullptr;  // [rows] one over the row's sum
    float * squared_weights_ = nullptr;
    float * unit_weights_ = nullptr;
    int * visible_ = nullptr;  // [rows]
    const Lane * lane_ = nullptr;
    Unit * unit_ = nullptr;
    int64_t stride_ = 0;
    int first_ = 0;    // of the block, in the unit
    int n_block_ = 0;  // queries
};

void run_rows(ggml_tensor * dst, int, int, void * data) {
    auto & wave = *static_cast<Wave *>(data);
    Job & job = wave.job;
    RowBlocks blocks(job, wave);
    if (!blocks.ready()) {
        job.no_memory = true;
        return;
    }
    const int64_t tile_floats = int64_t{job.shape().head_dim} * kTileEntries;
    // The last units see the most entries: they are dealt out first.
    for (size_t i = wave.next++; i < wave.units.size(); i = wave.next++) {
        Unit & unit = wave.units[wave.units.size() - 1 - i];
        const Lane & lane = wave.lanes[static_cast<size_t>(unit.lane)];
        blocks.run(aligned(dst->src[0]) + lane.first_tile * tile_floats, lane, unit, aligned(dst) + unit.sums);
    }
}

// ---- merging ----

// Adds the slices' plane to a row of the result, in the order of the slices.
void merge_plane(const Wave & wave, const Lane & lane, const float * sums, int plane, std::span<float> to) {
    for (int u = lane.first_unit; u < lane.first_unit + lane.n_units; ++u) {
        const Unit & unit = wave.units[static_cast<size_t>(u)];
        const int64_t width = unit.n_tiles * kTileEntries;
        const float * from = sums + unit.sums + plane * width;
        const auto n = std::min(to.size(), static_cast<size_t>(width));
        for (size_t j = 0; j < n; ++j) { to[j] += from[j]; }
    }
}

void run_merge(ggml_tensor * dst, int ith, int nth, void * data) {
    const auto & wave = *static_cast<const Wave *>(data);
    Job & job = wave.job;
    const int n_group = job.shape().n_group;
    const float * sums = aligned(dst->src[0]);
    int task = 0;
    const auto merge = [&](const Lane & lane, int plane, std::span<float> to) {
        if (task++ % nth == ith) { merge_plane(wave, lane, sums, plane, to); }
    };
    for (const Lane & lane : wave.lanes) {
        int plane = 0;
        const auto merge_heads = [&](bool wanted, Ragged<float> & to) {
            if (!wanted) { return; }
            for (int g = 0; g < n_group; ++g) { merge(lane, plane++, to.row(lane.kv_head * n_group + g)); }
        };
        merge_heads(job.wants.column_sum, job.out.column_sum);
        merge_heads(job.wants.head_sq, job.out.head_sq);
        merge_heads(job.wants.profile.has_value(), job.out.profile);
        if (job.wants.group_sq) { merge(lane, plane, job.out.group_sq.row(lane.kv_head)); }
    }
}

// What is one number per head.
void add_numbers(const Wave & wave) {
    Job & job = wave.job;
    const int n_group = job.shape().n_group;
    for (const Unit & unit : wave.units) {
        const int first_head = wave.lanes[static_cast<size_t>(unit.lane)].kv_head * n_group;
        for (int g = 0; g < n_group; ++g) {
            const auto i = static_cast<size_t>(g);
            if (job.wants.entropy) { job.out.entropy[static_cast<size_t>(first_head + g)] += unit.entropy[i]; }
            if (job.wants.profile != HeadDistance::kPearson) { continue; }
            const auto mean = static_cast<float>(unit.unit_mean[i]);
            for (float & value : job.out.profile.row(first_head + g)) { value -= mean; }
        }
    }
}

// ---- planning ----

// Slices of the queries that see anything of a lane. Their number follows from that of the queries alone.
void add_units(const Job & job, std::span<const int32_t> query_positions, int max_slices, Wave & wave, Lane & lane) {
    const auto positions = job.cache.positions(job.cache.lane(job.seq, job.layer, lane.kv_head));
    const int n = static_cast<int>(query_positions.size());
    // Queries older than the whole lane come first.
    auto begin = static_cast<int>(std::ranges::lower_bound(query_positions, positions.front()) - query_positions.begin());
    ObserveWants only_last;
    only_last.last = job.wants.last;
    if (job.wants == only_last) { begin = std::max(begin, n - 1); }
    const int64_t n_left = n - begin;
    const int64_t n_slices = std::clamp<int64_t>(n_left / kSliceQueries, 1, max_slices);
    lane.first_unit = static_cast<int>(wave.units.size());
    for (int64_t s = 0; s < n_slices && n_left > 0; ++s) {
        Unit unit;
        unit.lane = static_cast<int>(wave.lanes.size());
        unit.first = begin + static_cast<int>(n_left * s / n_slices);
        const int end = begin + static_cast<int>(n_left * (s + 1) / n_slices);
        for (int i = unit.first; i < end; ++i) {
            const int32_t position = query_positions[static_cast<size_t>(i)];
            unit.visible.push_back(static_cast<int>(std::ranges::upper_bound(positions, position) - positions.begin()));
        }
        unit.n_tiles = tiles_of(unit.visible.back());
        unit.sums = wave.n_sums;
        unit.entropy.assign(static_cast<size_t>(job.shape().n_group), 0.0);
        unit.unit_mean = unit.entropy;
        wave.n_sums += job.n_planes() * unit.n_tiles * kTileEntries;
        // Only what some query sees is packed.
        lane.n_tiles = unit.n_tiles;
        wave.units.push_back(std::move(unit));
    }
    lane.n_units = static_cast<int>(wave.units.size()) - lane.first_unit;
}

void make_waves(Job & job, std::span<const int32_t> query_positions, const FusedLimits & limits, std::deque<Wave> & waves) {
    const int64_t max_tiles = limits.packed_floats / (int64_t{job.shape().head_dim} * kTileEntries);
    for (int h = 0; h < job.shape().n_kv_heads; ++h) {
        Lane lane;
        lane.kv_head = h;
        lane.length = job.length(h);
        if (lane.length == 0) { continue; }
        if (waves.empty() || waves.back().n_tiles + tiles_of(lane.length) > max_tiles) { waves.emplace_back(job); }
        Wave & wave = waves.back();
        lane.first_tile = wave.n_tiles;
        add_units(job, query_positions, limits.max_slices, wave, lane);
        if (lane.n_units == 0) { continue; }
        wave.n_tiles += lane.n_tiles;
        wave.lanes.push_back(lane);
    }
    if (!waves.empty() && waves.back().units.empty()) { waves.pop_back(); }
}

}  // namespace

Status observe_fused(GraphRunner & runner, const RaggedCache & cache, int seq, int layer, const float * queries,
                     std::span<const int32_t> query_positions, const ObserveWants & wants, Observed & out,
                     const FusedLimits & limits) {
    Job job{cache, seq, layer, queries, static_cast<int>(query_positions.size()), wants, out, limits.row_floats};
    std::deque<Wave> waves;
    make_waves(job, query_positions, limits, waves);
    if (waves.empty()) { return {}; }
    PITH_ASSIGN_OR_RETURN(GraphBuild * build, runner.begin(64 + 8 * waves.size()));
    for (Wave & wave : waves) {
        const int64_t tile_floats = int64_t{job.shape().head_dim} * kTileEntries;
        ggml_tensor * packed = make_operation(build->ctx(), wave.n_tiles * tile_floats, cache.k(layer), run_pack, &wave);
        ggml_tensor * sums = make_operation(build->ctx(), wave.n_sums, packed, run_rows, &wave);
        ggml_build_forward_expand(build->graph(), make_operation(build->ctx(), 0, sums, run_merge, &wave));
    }
    PITH_RETURN_IF_ERROR(runner.run());
    if (job.no_memory) {
        return {ErrorCode::kOutOfMemory, "no memory for rows of observed attention: free some, or evict more"};
    }
    for (const Wave & wave : waves) { add_numbers(wave); }
    return {};
}

}  // namespace pith
