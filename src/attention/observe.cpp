// observe.cpp - attention probabilities of observed queries, reduced per entry.
#include "attention/observe.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "attention/lane_attention.h"

namespace pith {
namespace {

constexpr int kBlock = 64;  // queries at a time: bounds the scratch to 64 · length · group floats

std::vector<int> lane_lengths(const RaggedCache & cache, int seq, int layer, int copies) {
    std::vector<int> lengths;
    for (int h = 0; h < cache.layout().shape.n_kv_heads; ++h) {
        lengths.insert(lengths.end(), static_cast<size_t>(copies), cache.length(cache.lane(seq, layer, h)));
    }
    return lengths;
}

// One block of queries against one lane.
struct Block {
    int kv_head = 0;
    int first = 0;             // query index
    int n = 0;                 // queries
    int n_visible = 0;         // entries that the last query of the block sees
    std::vector<int> visible;  // [n] entries each query sees
    bool last = false;         // holds the last query
    std::vector<float> sums;   // [group][n_visible]
    std::vector<float> squares;
    std::vector<float> last_row;
};

std::vector<Block> make_blocks(const RaggedCache & cache, int seq, int layer, std::span<const int32_t> query_positions) {
    std::vector<Block> blocks;
    const int n = static_cast<int>(query_positions.size());
    for (int h = 0; h < cache.layout().shape.n_kv_heads; ++h) {
        const auto positions = cache.positions(cache.lane(seq, layer, h));
        for (int first = 0; first < n; first += kBlock) {
            Block block{h, first, std::min(kBlock, n - first)};
            for (int i = 0; i < block.n; ++i) {
                const int32_t position = query_positions[static_cast<size_t>(first + i)];
                block.visible.push_back(static_cast<int>(std::ranges::upper_bound(positions, position) - positions.begin()));
            }
            block.n_visible = block.visible.back();
            block.last = first + block.n == n;
            blocks.push_back(std::move(block));
        }
    }
    return blocks;
}

// Each query sees exactly one entry more than the one before: ggml's causal mask says just that.
bool is_causal_tail(const Block & block) {
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
    const float scale = 1.0F / std::sqrt(static_cast<float>(shape.head_dim));
    ggml_tensor * keys = view_lanes(ctx, cache, cache.k(layer), seq, {block.kv_head, block.kv_head + 1, block.n_visible});
    ggml_tensor * part = ggml_view_3d(
        ctx, q, q->ne[0], shape.n_group, block.n, q->nb[1], q->nb[2],
        q->nb[2] * static_cast<size_t>(block.first) + q->nb[1] * static_cast<size_t>(block.kv_head * shape.n_group));
    part = ggml_cont(ctx, ggml_permute(ctx, part, 0, 2, 1, 3));  // [d, n, group]
    ggml_tensor * scores = ggml_mul_mat(ctx, keys, part);        // [n_visible, n, group]
    if (is_causal_tail(block)) {
        scores = ggml_diag_mask_inf_inplace(ctx, scores, block.n_visible - block.n);
        return ggml_soft_max_ext_inplace(ctx, scores, nullptr, scale, 0.0F);
    }
    ggml_tensor * mask = build.input<float>(GGML_TYPE_F32, block.n_visible, block.n, [&block](std::span<float> values) {
        for (int i = 0; i < block.n; ++i) {
            const auto row = values.subspan(static_cast<size_t>(i) * static_cast<size_t>(block.n_visible),
                                            static_cast<size_t>(block.n_visible));
            const auto border = row.begin() + block.visible[static_cast<size_t>(i)];
            std::fill(row.begin(), border, 0.0F);
            std::fill(border, row.end(), -std::numeric_limits<float>::infinity());
        }
    });
    return ggml_soft_max_ext_inplace(ctx, scores, mask, scale, 0.0F);
}

// Sums over the queries: [n_entries, n, heads] → [1, n_entries, heads].
ggml_tensor * sum_over_queries(ggml_context * ctx, ggml_tensor * p) {
    return ggml_sum_rows(ctx, ggml_cont(ctx, ggml_permute(ctx, p, 1, 0, 2, 3)));
}

void add_outputs(GraphBuild & build, const ObserveWants & wants, int n_group, Block & block, ggml_tensor * p) {
    ggml_context * ctx = build.ctx();
    const auto n = static_cast<size_t>(block.n_visible);
    if (wants.column_sum) {
        block.sums.resize(n * static_cast<size_t>(n_group));
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
        build.output(sum_over_queries(ctx, ggml_sqr(ctx, mean)), block.squares.data());
    }
    if (wants.last && block.last) {
        ggml_tensor * row = ggml_view_2d(ctx, p, p->ne[0], n_group, p->nb[2], p->nb[1] * static_cast<size_t>(block.n - 1));
        block.last_row.resize(n * static_cast<size_t>(n_group));
        build.output(ggml_cont(ctx, row), block.last_row.data());
    }
}

void accumulate(const Block & block, int n_group, Observed & out) {
    const auto n = static_cast<size_t>(block.n_visible);
    const auto add = [n](const std::vector<float> & from, size_t row, std::span<float> to) {
        if (from.empty()) { return; }
        for (size_t j = 0; j < n; ++j) { to[j] += from[row * n + j]; }
    };
    for (int g = 0; g < n_group; ++g) {
        const int head = block.kv_head * n_group + g;
        if (!block.sums.empty()) { add(block.sums, static_cast<size_t>(g), out.column_sum.row(head)); }
        if (!block.last_row.empty()) { add(block.last_row, static_cast<size_t>(g), out.last.row(head)); }
    }
    if (!block.squares.empty()) { add(block.squares, 0, out.group_sq.row(block.kv_head)); }
}

}  // namespace

Status observe_queries(GraphRunner & runner, const RaggedCache & cache, int seq, int layer, const float * queries,
                       std::span<const int32_t> query_positions, const ObserveWants & wants, Observed & out) {
    const CacheShape & shape = cache.layout().shape;
    std::vector<Block> blocks = make_blocks(cache, seq, layer, query_positions);
    if (wants.column_sum) { out.column_sum = Ragged<float>(lane_lengths(cache, seq, layer, shape.n_group)); }
    if (wants.group_sq) { out.group_sq = Ragged<float>(lane_lengths(cache, seq, layer, 1)); }
    if (wants.last) { out.last = Ragged<float>(lane_lengths(cache, seq, layer, shape.n_group)); }

    PITH_ASSIGN_OR_RETURN(GraphBuild * build, runner.begin(64 + blocks.size() * static_cast<size_t>(24 + 2 * shape.n_group)));
    const auto n = static_cast<int64_t>(query_positions.size());
    ggml_tensor * q = build->input(GGML_TYPE_F32, static_cast<int64_t>(shape.head_dim) * shape.n_heads(), n, queries);
    q = ggml_reshape_3d(build->ctx(), q, shape.head_dim, shape.n_heads(), n);
    for (Block & block : blocks) {
        if (!wants.column_sum && !wants.group_sq && !block.last) { continue; }
        add_outputs(*build, wants, shape.n_group, block, probabilities(*build, cache, seq, layer, block, q));
    }
    PITH_RETURN_IF_ERROR(runner.run());
    for (const Block & block : blocks) { accumulate(block, shape.n_group, out); }
    return {};
}

Status key_norms(GraphRunner & runner, const RaggedCache & cache, int seq, int layer, Ragged<float> & out) {
    const std::vector<int> lengths = lane_lengths(cache, seq, layer, 1);
    out = Ragged<float>(lengths);
    PITH_ASSIGN_OR_RETURN(GraphBuild * build, runner.begin(64 + lengths.size() * 16));
    ggml_context * ctx = build->ctx();
    for (int h = 0; h < static_cast<int>(lengths.size()); ++h) {
        ggml_tensor * keys = view_lanes(ctx, cache, cache.k(layer), seq, {h, h + 1, lengths[static_cast<size_t>(h)]});
        if (keys->type != GGML_TYPE_F32) { keys = ggml_cast(ctx, keys, GGML_TYPE_F32); }
        build->output(ggml_sqrt(ctx, ggml_sum_rows(ctx, ggml_sqr(ctx, keys))), out.row(h).data());
    }
    return runner.run();
}

}  // namespace pith
