// block_attention.cpp - one graph: a softmax without a mask for every lane, summed over its queries.
#include "evidence/block_attention.h"

#include <algorithm>
#include <limits>

#include "evidence/lane_tiles.h"
#include "policy/evidence/evidence.h"

namespace pith {

Status block_attention(GraphRunner & runner, const RaggedCache & cache, int seq, int layer, const float * queries, int n,
                       int32_t first_position, Ragged<float> & out) {
    const CacheShape & shape = cache.layout().shape;
    std::vector<int> first;    // [K] the block's first entry
    std::vector<int> lengths;  // [H]
    for (int h = 0; h < shape.n_kv_heads; ++h) {
        const auto positions = cache.positions(cache.lane(seq, layer, h));
        const auto begin = std::ranges::lower_bound(positions, first_position) - positions.begin();
        const auto end = std::ranges::lower_bound(positions, first_position + n) - positions.begin();
        first.push_back(static_cast<int>(begin));
        lengths.insert(lengths.end(), static_cast<size_t>(shape.n_group), static_cast<int>(end - begin));
    }
    out = Ragged<float>(lengths);
    if (out.size() == 0) { return {}; }

    PITH_ASSIGN_OR_RETURN(GraphBuild * build, runner.begin(64 + 16 * static_cast<size_t>(shape.n_kv_heads)));
    ggml_context * ctx = build->ctx();
    ggml_tensor * q = build->input(GGML_TYPE_F32, static_cast<int64_t>(shape.head_dim) * shape.n_heads(), n, queries);
    for (int h = 0; h < shape.n_kv_heads; ++h) {
        const int head = h * shape.n_group;
        const int length = out.length(head);
        if (length == 0) { continue; }
        const size_t of_head = static_cast<size_t>(shape.head_dim) * sizeof(float);
        ggml_tensor * group = ggml_view_3d(ctx, q, shape.head_dim, n, shape.n_group, q->nb[1], of_head,
                                           of_head * static_cast<size_t>(head));  // [d, n, group]
        ggml_tensor * keys = entries_f32(*build, cache, cache.k(layer), seq, layer, h, first[static_cast<size_t>(h)], length);
        ggml_tensor * p = ggml_soft_max(ctx, ggml_mul_mat(ctx, keys, ggml_cont(ctx, group)));  // [length, n, group]
        ggml_tensor * by_key = ggml_cont(ctx, ggml_permute(ctx, p, 1, 0, 2, 3));               // [n, length, group]
        build->output(ggml_sum_rows(ctx, by_key), out.row(head).data());  // a group's rows lie side by side
    }
    return runner.run();
}

float sum_without_block(int32_t position) {
    return position < kFirstTokens ? 1.0F : std::numeric_limits<float>::quiet_NaN();
}

std::vector<float> closed_sums(std::span<const float> known, std::span<const int32_t> positions, int32_t begin) {
    const auto n = static_cast<size_t>(std::ranges::lower_bound(positions, begin) - positions.begin());
    const auto from = known.first(std::min(known.size(), n));
    std::vector<float> row(from.begin(), from.end());
    for (size_t j = row.size(); j < n; ++j) { row.push_back(sum_without_block(positions[j])); }
    return row;
}

}  // namespace pith
