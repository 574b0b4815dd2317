// group_outputs.cpp - the group's factor applied to values, as graphs of the back end's operations.
#include "evidence/group_outputs.h"

#include <algorithm>
#include <vector>

#include "evidence/lane_tiles.h"
#include "policy/evidence/evidence.h"

namespace pith {
namespace {

// One layer's graph: its tensors and sizes.
struct GroupGraph {
    GraphBuild & build;
    const RaggedCache & cache;
    ggml_tensor * values;
    int seq;
    int layer;
    int dv;
    int n_group;
    std::span<const float> factor;  // [K][r][r], r = n_group · dv: row (h, k) is column k

    ggml_context * ctx() const { return build.ctx(); }
    int64_t width() const { return int64_t{n_group} * dv; }

    // [dv, r]: what head g of KV head h multiplies its values by, a column of the factor after another.
    ggml_tensor * matrix(int h, int g) const {
        const auto r = static_cast<size_t>(width());
        const float * first = factor.data() + static_cast<size_t>(h) * r * r + static_cast<size_t>(g * dv);
        return build.input<float>(GGML_TYPE_F32, dv, width(), [first, r, n = static_cast<size_t>(dv)](std::span<float> out) {
            for (size_t k = 0; k < r; ++k) { std::copy_n(first + k * r, n, out.data() + k * n); }
        });
    }
    ggml_tensor * entries(int h, int first, int n) const {
        return entries_as_made(build, cache, values, seq, layer, h, first, n);
    }
};

int tile_of(const CacheShape & shape, int dv) {
    return tile_length(int64_t{shape.n_group} * shape.n_group * dv);
}

size_t count_nodes(const std::vector<int> & lengths, int tile, size_t per_lane, size_t per_tile) {
    size_t n = 64;
    for (const int length : lengths) { n += per_lane + n_tiles(length, tile) * per_tile; }
    return n;
}

}  // namespace

Status output_pairs(GraphRunner & runner, const RaggedCache & cache, int seq, int layer, std::span<const float> group_factor,
                    Ragged<float> & out) {
    const CacheShape & shape = cache.layout().shape;
    const int dv = cache.layout().head_dim_v;
    const int n_pairs = n_head_pairs(shape.n_group);
    const std::vector<int> lengths = lane_lengths(cache, seq, layer, 1);
    out = Ragged<float>(lane_lengths(cache, seq, layer, n_pairs));
    if (out.size() == 0) { return {}; }
    const int tile = tile_of(shape, dv);
    const auto n_group = static_cast<size_t>(shape.n_group);
    const size_t n_nodes = count_nodes(lengths, tile, n_group, 4 + kMadeNodes + n_group + 3 * static_cast<size_t>(n_pairs));
    PITH_ASSIGN_OR_RETURN(GraphBuild * build, runner.begin(n_nodes));
    const GroupGraph graph{*build, cache, cache.v(layer), seq, layer, dv, shape.n_group, group_factor};
    for (int h = 0; h < shape.n_kv_heads; ++h) {
        std::vector<ggml_tensor *> matrices;
        for (int g = 0; g < shape.n_group; ++g) { matrices.push_back(graph.matrix(h, g)); }
        for_each_tile(lengths[static_cast<size_t>(h)], tile, [&](int first, int n) {
            ggml_tensor * values = graph.entries(h, first, n);
            std::vector<ggml_tensor *> projected;  // [r, n] each
            for (ggml_tensor * matrix : matrices) { projected.push_back(ggml_mul_mat(graph.ctx(), matrix, values)); }
            for (int g = 0; g < shape.n_group; ++g) {
                for (int other = g; other < shape.n_group; ++other) {
                    ggml_tensor * product =
                        ggml_mul(graph.ctx(), projected[static_cast<size_t>(g)], projected[static_cast<size_t>(other)]);
                    build->output(ggml_sum_rows(graph.ctx(), product),
                                  out.row(h * n_pairs + head_pair(g, other, shape.n_group)).data() + first);
                }
            }
        });
    }
    return runner.run();
}

Status output_errors(GraphRunner & runner, const RaggedCache & cache, int seq, int layer, std::span<const float> group_factor,
                     const Ragged<float> & weights, const Ragged<float> & odds, Ragged<float> & out) {
    const CacheShape & shape = cache.layout().shape;
    const int dv = cache.layout().head_dim_v;
    const std::vector<int> lengths = lane_lengths(cache, seq, layer, 1);
    bool fits = weights.n_rows() == shape.n_heads() && odds.n_rows() == shape.n_heads();
    for (int head = 0; fits && head < shape.n_heads(); ++head) {
        const int length = lengths[static_cast<size_t>(head / shape.n_group)];
        fits = weights.length(head) == length && odds.length(head) == length;
    }
    if (!fits) { return {ErrorCode::kInternal, "errors behind W_O need a row of weights per query head, as long as its lane"}; }
    out = Ragged<float>(lengths);
    if (out.size() == 0) { return {}; }
    const int tile = tile_of(shape, dv);
    const auto n_group = static_cast<size_t>(shape.n_group);
    PITH_ASSIGN_OR_RETURN(GraphBuild * build,
                          runner.begin(count_nodes(lengths, tile, 4 * n_group, 16 + 2 * kMadeNodes + 8 * n_group)));
    const GroupGraph graph{*build, cache, cache.v(layer), seq, layer, dv, shape.n_group, group_factor};
    ggml_context * ctx = graph.ctx();
    for (int h = 0; h < shape.n_kv_heads; ++h) {
        const int length = lengths[static_cast<size_t>(h)];
        if (length == 0) { continue; }
        const int first_head = h * shape.n_group;
        ggml_tensor * w = build->input(GGML_TYPE_F32, length, shape.n_group, weights.row(first_head).data());
        ggml_tensor * means = nullptr;  // [dv, G]
        for_each_tile(length, tile, [&](int first, int n) {
            ggml_tensor * of_tile =
                ggml_view_2d(ctx, w, n, shape.n_group, w->nb[1], static_cast<size_t>(first) * sizeof(float));
            ggml_tensor * transposed = ggml_cont(ctx, ggml_transpose(ctx, graph.entries(h, first, n)));
            of_tile = ggml_mul_mat(ctx, transposed, of_tile);
            means = means == nullptr ? of_tile : ggml_add(ctx, means, of_tile);
        });
        means = ggml_neg(ctx, means);
        std::vector<ggml_tensor *> matrices;
        for (int g = 0; g < shape.n_group; ++g) { matrices.push_back(graph.matrix(h, g)); }
        for_each_tile(length, tile, [&](int first, int n) {
            ggml_tensor * values = graph.entries(h, first, n);
            ggml_tensor * sum = nullptr;  // [r, n]
            for (int g = 0; g < shape.n_group; ++g) {
                // The difference first: behind the factor it would be one of large numbers.
                ggml_tensor * minus_mean = ggml_view_1d(ctx, means, dv, means->nb[1] * static_cast<size_t>(g));
                ggml_tensor * moved = ggml_mul_mat(ctx, matrices[static_cast<size_t>(g)], ggml_add(ctx, values, minus_mean));
                const float * of_head = odds.row(first_head + g).data() + first;
                moved = ggml_mul(ctx, moved, build->input(GGML_TYPE_F32, 1, n, of_head));
                sum = sum == nullptr ? moved : ggml_add(ctx, sum, moved);
            }
            build->output(ggml_sqrt(ctx, ggml_sum_rows(ctx, ggml_mul(ctx, sum, sum))), out.row(h).data() + first);
        });
    }
    return runner.run();
}

}  // namespace pith
