// output_norms.cpp - norms of values behind the output projection.
#include "evidence/output_norms.h"

#include <cmath>
#include <vector>

#include "evidence/cpu_lane_entries.h"
#include "evidence/lane_tiles.h"

namespace pith {
namespace {

// |v·W| of the lanes' values for W [dv][n_columns] of each query head: at(head, c, column) is an element.
template <class At>
Status norms_on_cpu(GraphRunner & runner, const RaggedCache & cache, int seq, int layer, int n_columns, EntryNorm norm, At at,
                    Ragged<float> & out, std::span<const int> begin) {
    const int n_group = cache.layout().shape.n_group;
    std::vector<PackedColumns> columns;
    for (int head = 0; head < cache.layout().shape.n_heads(); ++head) {
        columns.emplace_back(cache.layout().head_dim_v, n_columns, [&](int c, int column) { return at(head, c, column); });
    }
    const auto reduce = [&](const LaneTile & tile) {
        for (int head = tile.kv_head * n_group; head < (tile.kv_head + 1) * n_group; ++head) {
            reduce_products(tile.entries, columns[static_cast<size_t>(head)],
                            norm == EntryNorm::kL1 ? Reduction::kMagnitudes : Reduction::kRoot,
                            out.row(head).data() + tile.first);
        }
    };
    return for_each_lane_tile(runner, cache, cache.v(layer), seq, layer, reduce, begin);
}

// The same as products and sums of the back end's.
template <class At>
Status norms_in_graph(GraphRunner & runner, const RaggedCache & cache, int seq, int layer, int n_columns, EntryNorm norm, At at,
                      Ragged<float> & out, std::span<const int> begin) {
    const CacheShape & shape = cache.layout().shape;
    const int dv = cache.layout().head_dim_v;
    const int tile = tile_length(n_columns);
    size_t tiles = 0;
    for (const int length : lane_lengths(cache, seq, layer, 1)) { tiles += n_tiles(length, tile); }
    std::vector<float> matrices(static_cast<size_t>(shape.n_heads()) * static_cast<size_t>(n_columns * dv));
    float * next = matrices.data();
    for (int head = 0; head < shape.n_heads(); ++head) {
        for (int column = 0; column < n_columns; ++column) {
            for (int c = 0; c < dv; ++c) { *next++ = at(head, c, column); }
        }
    }
    PITH_ASSIGN_OR_RETURN(GraphBuild * build,
                          runner.begin(64 + tiles * (kMadeNodes + static_cast<size_t>(4 + 8 * shape.n_group))));
    ggml_context * ctx = build->ctx();
    for (int h = 0; h < shape.n_kv_heads; ++h) {
        std::vector<ggml_tensor *> of_head;
        for (int g = 0; g < shape.n_group; ++g) {
            const float * matrix = matrices.data() + int64_t{h * shape.n_group + g} * n_columns * dv;
            of_head.push_back(build->input(GGML_TYPE_F32, dv, n_columns, matrix));
        }
        const int known = begin.empty() ? 0 : begin[static_cast<size_t>(h)];
        for_each_tile(cache.length(cache.lane(seq, layer, h)) - known, tile, [&](int behind, int n) {
            const int first = known + behind;
            ggml_tensor * values = entries_as_made(*build, cache, cache.v(layer), seq, layer, h, first, n);
            for (int g = 0; g < shape.n_group; ++g) {
                ggml_tensor * y = ggml_mul_mat(ctx, of_head[static_cast<size_t>(g)], values);  // [n_columns, n]
                y = ggml_sum_rows(ctx, norm == EntryNorm::kL1 ? ggml_abs(ctx, y) : ggml_mul(ctx, y, y));
                if (norm == EntryNorm::kL2) { y = ggml_sqrt(ctx, y); }
                build->output(y, out.row(h * shape.n_group + g).data() + first);
            }
        });
    }
    return runner.run();
}

template <class At>
Status projected_norms(GraphRunner & runner, const RaggedCache & cache, int seq, int layer, int n_columns, EntryNorm norm,
                       At at, Ragged<float> & out, std::span<const int> begin = {}) {
    if (begin.empty()) { out = Ragged<float>(lane_lengths(cache, seq, layer, cache.layout().shape.n_group)); }
    if (out.size() == 0) { return {}; }
    return reads_entries(runner, cache.v(layer)) ? norms_on_cpu(runner, cache, seq, layer, n_columns, norm, at, out, begin)
                                                 : norms_in_graph(runner, cache, seq, layer, n_columns, norm, at, out, begin);
}

}  // namespace

Status output_l2_norms(GraphRunner & runner, const RaggedCache & cache, int seq, int layer, std::span<const float> factor,
                       Ragged<float> & out) {
    const int dv = cache.layout().head_dim_v;
    const auto at = [&](int head, int c, int column) {
        return factor[(static_cast<size_t>(head) * static_cast<size_t>(dv) + static_cast<size_t>(column)) *
                          static_cast<size_t>(dv) +
                      static_cast<size_t>(c)];
    };
    return projected_norms(runner, cache, seq, layer, dv, EntryNorm::kL2, at, out);
}

Status output_l1_norms(GraphRunner & runner, const RaggedCache & cache, int seq, int layer, std::span<const float> projection,
                       Ragged<float> & out, std::span<const int> begin) {
    const int dv = cache.layout().head_dim_v;
    const size_t row = static_cast<size_t>(dv) * static_cast<size_t>(cache.layout().shape.n_heads());
    const auto at = [&](int head, int c, int column) {
        return projection[static_cast<size_t>(column) * row + static_cast<size_t>(head * dv + c)];
    };
    const auto n_embd = static_cast<int>(projection.size() / row);
    return projected_norms(runner, cache, seq, layer, n_embd, EntryNorm::kL1, at, out, begin);
}

bool has_byte_norms(const GraphRunner & runner, const RaggedCache & cache, int layer) {
    return reads_entries(runner, cache.v(layer)) && can_multiply_bytes(cache.layout().head_dim_v) &&
           best_byte_unit() != ByteUnit::kNone;
}

Status output_l1_norms(GraphRunner & runner, const RaggedCache & cache, int seq, int layer, const ByteProjection & projection,
                       ByteUnit unit, Ragged<float> & out, std::span<const int> begin) {
    const int n_group = cache.layout().shape.n_group;
    if (begin.empty()) { out = Ragged<float>(lane_lengths(cache, seq, layer, n_group)); }
    const auto reduce = [&](const LaneTile & tile) {
        std::vector<ByteRows> heads;
        std::vector<float *> to;
        for (int head = tile.kv_head * n_group; head < (tile.kv_head + 1) * n_group; ++head) {
            heads.push_back(projection.head(head));
            to.push_back(out.row(head).data() + tile.first);
        }
        sum_byte_magnitudes(unit, tile.entries, heads, to);
    };
    return for_each_lane_tile(runner, cache, cache.v(layer), seq, layer, reduce, begin);
}

}  // namespace pith
