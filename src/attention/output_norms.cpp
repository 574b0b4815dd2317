// output_norms.cpp - norms of values behind the output projection.
#include "attention/output_norms.h"

#include <vector>

#include "attention/lane_tiles.h"
#include "attention/projected_norms.h"

namespace pith {
namespace {

// columns [H]: what each query head's values meet.
Status projected_norms(GraphRunner & runner, const RaggedCache & cache, int seq, int layer,
                       const std::vector<PackedColumns> & columns, ColumnNorm norm, Ragged<float> & out) {
    const CacheShape & shape = cache.layout().shape;
    const int tile = tile_length(cache.layout().head_dim_v);
    out = Ragged<float>(lane_lengths(cache, seq, layer, shape.n_group));
    if (out.size() == 0) { return {}; }
    size_t tiles = 0;
    for (const int length : lane_lengths(cache, seq, layer, 1)) { tiles += n_tiles(length, tile); }
    PITH_ASSIGN_OR_RETURN(GraphBuild * build, runner.begin(64 + tiles * static_cast<size_t>(4 + 2 * shape.n_group)));
    ggml_context * ctx = build->ctx();
    for (int h = 0; h < shape.n_kv_heads; ++h) {
        for_each_tile(cache.length(cache.lane(seq, layer, h)), tile, [&](int first, int n) {
            ggml_tensor * values = entries_f32(ctx, cache, cache.v(layer), seq, h, first, n);
            for (int head = h * shape.n_group; head < (h + 1) * shape.n_group; ++head) {
                ggml_tensor * sums = build_projected_sums(ctx, values, columns[static_cast<size_t>(head)], norm);
                if (norm == ColumnNorm::kSquares) { sums = ggml_sqrt(ctx, sums); }
                build->output(sums, out.row(head).data() + first);
            }
        });
    }
    return runner.run();
}

}  // namespace

Status output_l2_norms(GraphRunner & runner, const RaggedCache & cache, int seq, int layer, std::span<const float> factor,
                       Ragged<float> & out) {
    const int dv = cache.layout().head_dim_v;
    std::vector<PackedColumns> columns;
    for (int head = 0; head < cache.layout().shape.n_heads(); ++head) {
        const float * of_head = factor.data() + int64_t{head} * dv * dv;
        columns.emplace_back(dv, dv, [&](int c, int column) { return of_head[int64_t{column} * dv + c]; });
    }
    return projected_norms(runner, cache, seq, layer, columns, ColumnNorm::kSquares, out);
}

Status output_l1_norms(GraphRunner & runner, const RaggedCache & cache, int seq, int layer, std::span<const float> projection,
                       Ragged<float> & out) {
    const int dv = cache.layout().head_dim_v;
    const int64_t row = int64_t{dv} * cache.layout().shape.n_heads();
    const auto n_embd = static_cast<int>(static_cast<int64_t>(projection.size()) / row);
    std::vector<PackedColumns> columns;
    for (int head = 0; head < cache.layout().shape.n_heads(); ++head) {
        const float * of_head = projection.data() + int64_t{head} * dv;
        columns.emplace_back(dv, n_embd, [&](int c, int column) { return of_head[int64_t{column} * row + c]; });
    }
    return projected_norms(runner, cache, seq, layer, columns, ColumnNorm::kMagnitudes, out);
}

}  // namespace pith
