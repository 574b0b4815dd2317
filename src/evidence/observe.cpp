// observe.cpp - attention probabilities of observed queries, reduced per entry.
#include "evidence/observe.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "attention/lane_attention.h"
#include "device/device_work.h"
#include "evidence/bucket_observe.h"
#include "evidence/column_sums.h"
#include "evidence/cpu_observe.h"
#include "evidence/lane_tiles.h"

namespace pith {
namespace {

constexpr int kBlock = 64;                           // queries at a time, fewer over long lanes:
constexpr int64_t kBlockFloats = int64_t{1} << 22U;  // bounds the scratch of a block to a few times 16 MiB
constexpr float kTiny = 1e-30F;                      // below any sum of squared probabilities that is not 0

// One block of queries against one lane.
struct Block {
    int kv_head = 0;
    int first = 0;             // query index
    int n = 0;                 // queries
    int n_visible = 0;         // entries that the last query of the block sees, at least 1
    int n_past = 0;            // entries of these that are older than the first of all queries
    std::vector<int> visible;  // [n] entries each query sees
    bool last = false;         // holds the last query
    HiddenLane hidden;
    std::vector<int32_t> query_positions;  // [n] where keys are hidden
    std::vector<float> sums;               // [group][n_visible]
    std::vector<float> squares;
    std::vector<float> head_squares;
    std::vector<float> last_row;
    std::vector<float> entropies;   // [group][n]
    std::vector<float> unit_sums;   // [group][n_visible]
    std::vector<float> unit_means;  // [group] what every entry of the lane loses: centred rows only
    std::vector<float> rows;        // [group][n][n_visible]
};

std::vector<Block> make_blocks(const RaggedCache & cache, int seq, int layer, std::span<const int32_t> query_positions,
                               const HiddenKeys * hidden) {
    std::vector<Block> blocks;
    const CacheShape & shape = cache.layout().shape;
    const int n = static_cast<int>(query_positions.size());
    for (int h = 0; h < shape.n_kv_heads; ++h) {
        const auto positions = cache.positions(cache.lane(seq, layer, h));
        if (positions.empty()) { continue; }
        const int64_t row = static_cast<int64_t>(positions.size()) * shape.n_group;
        const int size = static_cast<int>(std::clamp<int64_t>(kBlockFloats / row, 8, kBlock));
        // Queries older than the whole lane come first.
        const auto begin = std::ranges::lower_bound(query_positions, positions.front()) - query_positions.begin();
        for (int first = static_cast<int>(begin); first < n; first += size) {
            Block block;
            block.kv_head = h;
            block.first = first;
            block.n = std::min(size, n - first);
            for (int i = 0; i < block.n; ++i) {
                const int32_t position = query_positions[static_cast<size_t>(first + i)];
                block.visible.push_back(static_cast<int>(std::ranges::upper_bound(positions, position) - positions.begin()));
            }
            block.n_visible = block.visible.back();
            block.n_past = static_cast<int>(std::ranges::lower_bound(positions, query_positions.front()) - positions.begin());
            if (hidden != nullptr) {
                fill_hidden_lane(*hidden, h, positions, block.hidden);
                const auto asked = query_positions.subspan(static_cast<size_t>(first), static_cast<size_t>(block.n));
                block.query_positions.assign(asked.begin(), asked.end());
            }
            block.last = first + block.n == n;
            blocks.push_back(std::move(block));
        }
    }
    return blocks;
}

// Each query sees exactly one entry more than the one before: ggml's causal mask says just that.
bool is_causal_tail(const Block & block) {
    if (block.hidden.any()) { return false; }
    for (int i = 0; i < block.n; ++i) {
        if (block.visible[static_cast<size_t>(i)] != block.n_visible - (block.n - 1 - i)) { return false; }
    }
    return true;
}

// Probabilities [n_visible, n, group].
ggml_tensor * probabilities(GraphBuild & build, const RaggedCache & cache, int seq, int layer, const Block & block,
                            ggml_tensor * q) {
    ggml_context * ctx = build.ctx();
    const CacheShape & shape = cache.layout().shape;
    const float scale = cache.layout().attention_scale;
    ggml_tensor * keys =
        are_in_one_piece(cache, seq, layer, block.kv_head, 0, block.n_visible)
            ? view_lanes(ctx, cache, cache.k(layer), seq, layer, {block.kv_head, block.kv_head + 1, block.n_visible})
            : gathered_entries(build, cache, cache.k(layer), seq, layer, block.kv_head, 0, block.n_visible);
    ggml_tensor * part = ggml_view_3d(
        ctx, q, q->ne[0], shape.n_group, block.n, q->nb[1], q->nb[2],
        q->nb[2] * static_cast<size_t>(block.first) + q->nb[1] * static_cast<size_t>(block.kv_head * shape.n_group));
    part = ggml_cont(ctx, ggml_permute(ctx, part, 0, 2, 1, 3));  // [d, n, group]
    ggml_tensor * scores = ggml_mul_mat(ctx, keys, part);        // [n_visible, n, group]
    float left_to_scale = scale;
    if (const float cap = cache.layout().attention_softcap; cap != 0.0F) {
        scores = ggml_scale(ctx, ggml_tanh(ctx, ggml_scale(ctx, scores, scale / cap)), cap);
        left_to_scale = 1.0F;
    }
    const auto soft_max = [&](ggml_tensor * masked, ggml_tensor * mask) {
        // Not in place, as in bucket_observe.cpp.
        ggml_tensor * p = ggml_soft_max_ext(ctx, masked, mask, left_to_scale, 0.0F);
        if (const auto sinks = cache.layout().sinks_of(layer); !sinks.empty()) {
            const float * of_lane = sinks.data() + block.kv_head * shape.n_group;
            ggml_soft_max_add_sinks(p, build.input(GGML_TYPE_F32, shape.n_group, 1, of_lane));
        }
        return p;
    };
    if (is_causal_tail(block)) { return soft_max(ggml_diag_mask_inf(ctx, scores, block.n_visible - block.n), nullptr); }
    ggml_tensor * mask = build.input<float>(GGML_TYPE_F32, block.n_visible, block.n, [&block](std::span<float> values) {
        for (int i = 0; i < block.n; ++i) {
            const auto row = values.subspan(static_cast<size_t>(i) * static_cast<size_t>(block.n_visible),
                                            static_cast<size_t>(block.n_visible));
            const auto border = row.begin() + block.visible[static_cast<size_t>(i)];
            std::fill(row.begin(), border, 0.0F);
            std::fill(border, row.end(), -std::numeric_limits<float>::infinity());
            for (int j = block.hidden.any() ? block.hidden.first : block.n_visible; j < block.n_visible; ++j) {
                if (block.hidden.hides(j, block.query_positions[static_cast<size_t>(i)])) {
                    row[static_cast<size_t>(j)] = -std::numeric_limits<float>::infinity();
                }
            }
        }
    });
    return soft_max(scores, mask);
}

ggml_tensor * square(ggml_context * ctx, ggml_tensor * x) {
    return ggml_mul(ctx, x, x);
}

// 1 / sqrt(x), and 0 where x is 0.
ggml_tensor * inverse_root(ggml_context * ctx, ggml_tensor * x) {
    ggml_tensor * safe = ggml_clamp(ctx, ggml_cont(ctx, x), kTiny, std::numeric_limits<float>::max());
    return ggml_mul(ctx, ggml_div(ctx, x, safe), ggml_div(ctx, ggml_sqrt(ctx, safe), safe));
}

// Σ over the queries of the rows as the distance wants them.
void add_profile(GraphBuild & build, HeadDistance distance, int n_group, int length, bool with_sinks, Block & block,
                 ggml_tensor * p) {
    ggml_context * ctx = build.ctx();
    const auto n = static_cast<size_t>(block.n_visible);
    block.unit_sums.resize(n * static_cast<size_t>(n_group));
    if (distance == HeadDistance::kBhattacharyya) {
        build.output(sum_over_queries(ctx, ggml_sqrt(ctx, p)), block.unit_sums.data());
        return;
    }
    if (distance == HeadDistance::kJensenShannon || distance == HeadDistance::kEuclidean) {
        build.output(sum_over_queries(ctx, p), block.unit_sums.data());
        return;
    }
    // Σ_i w_i A[i], w_i one over the row's norm, by a product of the transposed block with w.
    ggml_tensor * squares = nullptr;  // [1, n, group]
    ggml_tensor * means = nullptr;    // the same, where rows sum to less than 1
    const float mean = 1.0F / static_cast<float>(length);
    if (distance == HeadDistance::kPearson && with_sinks) {
        means = ggml_scale(ctx, ggml_sum_rows(ctx, p), mean);
        ggml_tensor * behind = ggml_scale(ctx, square(ctx, means), static_cast<float>(length - block.n_visible));
        squares = ggml_add(ctx, ggml_sum_rows(ctx, square(ctx, ggml_sub(ctx, p, means))), behind);
    } else if (distance == HeadDistance::kPearson) {
        // Every row sums to 1, so its mean over the lane is 1 / length; entries behind the block are 0 in all its rows.
        const float behind = static_cast<float>(length - block.n_visible) * mean * mean;
        squares = ggml_sum_rows(ctx, square(ctx, ggml_scale_bias(ctx, p, 1.0F, -mean)));
        squares = ggml_scale_bias(ctx, squares, 1.0F, behind);
    } else {
        squares = ggml_sum_rows(ctx, square(ctx, p));
    }
    ggml_tensor * weights = ggml_reshape_3d(ctx, inverse_root(ctx, squares), block.n, 1, n_group);
    build.output(ggml_mul_mat(ctx, queries_first(ctx, p), weights), block.unit_sums.data());
    if (distance == HeadDistance::kPearson) {
        block.unit_means.resize(static_cast<size_t>(n_group));
        ggml_tensor * less = means == nullptr
                                 ? ggml_scale(ctx, ggml_sum_rows(ctx, weights), mean)
                                 : ggml_sum_rows(ctx, ggml_mul(ctx, weights, ggml_reshape_3d(ctx, means, block.n, 1, n_group)));
        build.output(less, block.unit_means.data());
    }
}

void add_outputs(GraphBuild & build, const ObserveWants & wants, int n_group, int length, bool with_sinks, Block & block,
                 ggml_tensor * p) {
    ggml_context * ctx = build.ctx();
    const auto n = static_cast<size_t>(block.n_visible);
    const auto size = n * static_cast<size_t>(n_group);
    if (wants.column_sum) {
        block.sums.resize(size);
        build.output(sum_over_queries(ctx, p), block.sums.data());
    }
    if (wants.group_sq) {
        ggml_tensor * mean = nullptr;
        for (int g = 0; g < n_group; ++g) {
            ggml_tensor * one = ggml_view_2d(ctx, p, p->ne[0], p->ne[1], p->nb[1], p->nb[2] * static_cast<size_t>(g));
            mean = mean == nullptr ? one : ggml_add(ctx, mean, one);
        }
        mean = ggml_scale(ctx, mean, 1.0F / static_cast<float>(n_group));
        block.squares.resize(n);
        build.output(sum_over_queries(ctx, square(ctx, mean)), block.squares.data());
    }
    if (wants.head_sq) {
        block.head_squares.resize(size);
        build.output(sum_over_queries(ctx, square(ctx, p)), block.head_squares.data());
    }
    if (wants.last && block.last) {
        ggml_tensor * row = ggml_view_2d(ctx, p, p->ne[0], n_group, p->nb[2], p->nb[1] * static_cast<size_t>(block.n - 1));
        block.last_row.resize(size);
        build.output(ggml_cont(ctx, row), block.last_row.data());
    }
    if (wants.rows || wants.column_max) {  // ggml has no largest of a column
        block.rows.resize(size * static_cast<size_t>(block.n));
        build.output(ggml_cont(ctx, p), block.rows.data());
    }
    if (wants.profile) { add_profile(build, *wants.profile, n_group, length, with_sinks, block, p); }
    if (wants.entropy) {
        block.entropies.resize(static_cast<size_t>(block.n) * static_cast<size_t>(n_group));
        if (block.n_past == 0) { return; }
        ggml_tensor * past = ggml_cont(ctx, ggml_view_3d(ctx, p, block.n_past, p->ne[1], p->ne[2], p->nb[1], p->nb[2], 0));
        // 0 · log 0 = 0: the logarithm is taken of at least the smallest normal number.
        ggml_tensor * safe = ggml_clamp(ctx, ggml_cont(ctx, past), std::numeric_limits<float>::min(), 1.0F);
        build.output(ggml_sum_rows(ctx, ggml_mul(ctx, past, ggml_log(ctx, safe))), block.entropies.data());
    }
}

void accumulate(const Block & block, int n_group, int n_queries, Observed & out) {
    const auto n = static_cast<size_t>(block.n_visible);
    const auto add = [n](const std::vector<float> & from, size_t row, std::span<float> to) {
        for (size_t j = 0; j < n; ++j) { to[j] += from[row * n + j]; }
    };
    for (int g = 0; g < n_group; ++g) {
        const auto row = static_cast<size_t>(g);
        const int head = block.kv_head * n_group + g;
        if (!block.sums.empty()) { add(block.sums, row, out.column_sum.row(head)); }
        if (!block.head_squares.empty()) { add(block.head_squares, row, out.head_sq.row(head)); }
        if (!block.last_row.empty()) { add(block.last_row, row, out.last.row(head)); }
        if (!block.unit_sums.empty()) { add(block.unit_sums, row, out.profile.row(head)); }
        if (!block.unit_means.empty()) {
            for (float & value : out.profile.row(head)) { value -= block.unit_means[row]; }
        }
        const auto n_rows = static_cast<size_t>(block.n);
        for (size_t i = 0; i < n_rows && !block.entropies.empty(); ++i) {
            out.entropy[static_cast<size_t>(head)] -= block.entropies[row * n_rows + i];
        }
        for (size_t i = 0; i < n_rows && !block.rows.empty(); ++i) {
            const size_t of_query = row * n_rows + i;
            if (out.rows.n_rows() > 0) {
                add(block.rows, of_query, out.rows.row(head * n_queries + block.first + static_cast<int>(i)));
            }
            if (out.column_max.n_rows() == 0) { continue; }
            const auto most = out.column_max.row(head);
            for (size_t j = 0; j < n; ++j) { most[j] = std::max(most[j], block.rows[of_query * n + j]); }
        }
    }
    if (!block.squares.empty()) { add(block.squares, 0, out.group_sq.row(block.kv_head)); }
}

void make_room(const RaggedCache & cache, int seq, int layer, int n_queries, const ObserveWants & wants, Observed & out) {
    const CacheShape & shape = cache.layout().shape;
    const std::vector<int> per_head = lane_lengths(cache, seq, layer, shape.n_group);
    if (wants.column_sum) { out.column_sum = Ragged<float>(per_head); }
    if (wants.group_sq) { out.group_sq = Ragged<float>(lane_lengths(cache, seq, layer, 1)); }
    if (wants.column_max) { out.column_max = Ragged<float>(per_head); }
    if (wants.last) { out.last = Ragged<float>(per_head); }
    if (wants.head_sq) { out.head_sq = Ragged<float>(per_head); }
    if (wants.entropy) { out.entropy.assign(per_head.size(), 0.0); }
    if (wants.profile) { out.profile = Ragged<float>(per_head); }
    if (wants.rows) { out.rows = Ragged<float>(lane_lengths(cache, seq, layer, shape.n_group * n_queries)); }
}

}  // namespace

std::vector<int> lane_lengths(const RaggedCache & cache, int seq, int layer, int copies) {
    std::vector<int> lengths;
    for (int h = 0; h < cache.layout().shape.n_kv_heads; ++h) {
        lengths.insert(lengths.end(), static_cast<size_t>(copies), cache.length(cache.lane(seq, layer, h)));
    }
    return lengths;
}

namespace {

// Of one task, lane by lane.
struct TaskBlocks {
    const ObserveTask * task;
    std::vector<Block> blocks;
};

TaskBlocks blocks_of(const ObserveTask & task, int layer) {
    TaskBlocks of{&task, make_blocks(*task.cache, task.seq, layer, task.positions, task.hidden)};
    ObserveWants only_last;
    only_last.last = task.wants.last;
    if (task.wants == only_last) {
        std::erase_if(of.blocks, [](const Block & block) { return !block.last; });
    }
    return of;
}

void add_blocks(GraphBuild & build, int layer, TaskBlocks & of) {
    const RaggedCache & cache = *of.task->cache;
    const CacheShape & shape = cache.layout().shape;
    ggml_tensor * q = build.input(GGML_TYPE_F32, static_cast<int64_t>(shape.head_dim) * shape.n_heads(),
                                  std::ssize(of.task->positions), of.task->queries);
    q = ggml_reshape_3d(build.ctx(), q, shape.head_dim, shape.n_heads(), std::ssize(of.task->positions));
    for (Block & block : of.blocks) {
        const int length = cache.length(cache.lane(of.task->seq, layer, block.kv_head));
        add_outputs(build, of.task->wants, shape.n_group, length, !cache.layout().sinks_of(layer).empty(), block,
                    probabilities(build, cache, of.task->seq, layer, block, q));
    }
}

// Sums and profiles, not yet divided. Memory for one block of queries of one KV head at a time, or of several lanes.
Status observe_in_graph(GraphRunner & runner, int layer, std::span<const ObserveTask> tasks) {
    const CacheShape & shape = tasks.front().cache->layout().shape;
    std::vector<const ObserveTask *> in_buckets;
    std::vector<TaskBlocks> in_blocks;
    size_t n_nodes = 64;
    for (const ObserveTask & task : tasks) {
        if (BucketObservation::serves(task, layer)) {
            in_buckets.push_back(&task);
            continue;
        }
        in_blocks.push_back(blocks_of(task, layer));
        n_nodes += 8 + in_blocks.back().blocks.size() * static_cast<size_t>(64 + 2 * shape.n_group);
        if (!task.cache->in_buckets(layer)) { continue; }
        for (const Block & block : in_blocks.back().blocks) { n_nodes += gathered_nodes(block.n_visible); }
    }
    BucketObservation together(in_buckets, layer);
    if (in_buckets.empty() && std::ranges::all_of(in_blocks, [](const TaskBlocks & of) { return of.blocks.empty(); })) {
        return {};
    }
    PITH_ASSIGN_OR_RETURN(GraphBuild * build, runner.begin(n_nodes + together.n_nodes()));
    together.add(*build);
    for (TaskBlocks & of : in_blocks) {
        if (!of.blocks.empty()) { add_blocks(*build, layer, of); }
    }
    PITH_RETURN_IF_ERROR(runner.run());
    together.accumulate();
    for (const TaskBlocks & of : in_blocks) {
        const auto n = static_cast<int>(of.task->positions.size());
        for (const Block & block : of.blocks) { accumulate(block, shape.n_group, n, *of.task->out); }
    }
    return {};
}

void divide_profile(const ObserveTask & task) {
    if (!task.wants.profile) { return; }
    for (float & value : task.out->profile.flat()) { value /= static_cast<float>(task.positions.size()); }
}

}  // namespace

bool is_observed_there(const RaggedCache & cache, int layer) {
    const ggml_tensor * keys = cache.in_buckets(layer) ? cache.k(layer) : nullptr;
    return keys != nullptr && is_on_device(keys);
}

Status observe_together(GraphRunner & runner, int layer, std::span<const ObserveTask> tasks) {
    for (const ObserveTask & task : tasks) {
        make_room(*task.cache, task.seq, layer, static_cast<int>(task.positions.size()), task.wants, *task.out);
    }
    if (!tasks.empty()) { PITH_RETURN_IF_ERROR(observe_in_graph(runner, layer, tasks)); }
    for (const ObserveTask & task : tasks) { divide_profile(task); }
    return {};
}

Status observe_queries(GraphRunner & runner, const RaggedCache & cache, int seq, int layer, const float * queries,
                       std::span<const int32_t> query_positions, const ObserveWants & wants, Observed & out,
                       const HiddenKeys * hidden) {
    const ObserveTask task{&cache, seq, queries, query_positions, wants, &out, hidden};
    const bool on_cpu = hidden == nullptr && runner.custom_operations() && can_observe_on_cpu(cache.layout()) &&
                        !is_observed_there(cache, layer);
    if (!on_cpu) { return observe_together(runner, layer, std::span(&task, 1)); }
    make_room(cache, seq, layer, static_cast<int>(query_positions.size()), wants, out);
    PITH_RETURN_IF_ERROR(observe_on_cpu(runner, cache, seq, layer, queries, query_positions, wants, out));
    divide_profile(task);
    return {};
}

}  // namespace pith
