// query_moments.cpp - moments of queries, and what they say about keys.
#include "evidence/query_moments.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "evidence/cpu_lane_entries.h"
#include "evidence/lane_tiles.h"
#include "model/layer_graph.h"

namespace pith {
namespace {

// Heads are divided among ggml's threads; results go to the caller's moments, dst is one scratch per head.
void run_moments(ggml_tensor * dst, int ith, int nth, void * data) {
    auto & out = *static_cast<QueryMoments *>(data);
    const ggml_tensor * q = dst->src[0];
    const int64_t d = q->ne[0];
    for (int64_t head = ith; head < q->ne[1]; head += nth) {
        const auto * rows = static_cast<const uint8_t *>(q->data) + static_cast<size_t>(head) * q->nb[1];
        moments_of(reinterpret_cast<const float *>(rows), static_cast<int64_t>(q->nb[2] / sizeof(float)), q->ne[2],
                   static_cast<int>(d), static_cast<float *>(dst->data) + head * dst->ne[0], out.mean.data() + head * d,
                   out.squares.data() + head * d * d);
    }
}

}  // namespace

void build_query_moments(GraphBuild & build, ggml_tensor * q, int32_t first_position, QueryMoments & out) {
    ggml_context * ctx = build.ctx();
    const int64_t d = q->ne[0];
    const int64_t n_heads = q->ne[1];
    int64_t n = q->ne[2];
    out = {};
    out.only_sinks = first_position + n <= kSinkQueries;
    if (!out.only_sinks && first_position < kSinkQueries) {
        const int64_t skip = kSinkQueries - first_position;
        n -= skip;
        q = ggml_view_3d(ctx, q, d, n_heads, n, q->nb[1], q->nb[2], q->nb[2] * static_cast<size_t>(skip));
    }
    out.n = n;
    out.mean.resize(static_cast<size_t>(n_heads * d));
    if (n == 1) {
        build.output(ggml_cont(ctx, q), out.mean.data());
        return;
    }
    out.squares.assign(static_cast<size_t>(n_heads * d * d), 0.0F);
    if (build.custom_operations()) {
        ggml_tensor * args[] = {q};
        ggml_tensor * moments = ggml_custom_4d(ctx, GGML_TYPE_F32, moment_scratch_floats(static_cast<int>(d)), n_heads, 1, 1,
                                               args, 1, run_moments, GGML_N_TASKS_MAX, &out);
        ggml_set_name(moments, name_of(GraphPart::kEvidence));
        ggml_build_forward_expand(build.graph(), moments);
        return;
    }
    ggml_tensor * by_query = ggml_cont(ctx, ggml_permute(ctx, q, 1, 2, 0, 3));  // [n, d, H]
    ggml_tensor * mean = ggml_scale(ctx, ggml_sum_rows(ctx, by_query), 1.0F / static_cast<float>(n));
    ggml_tensor * centred = ggml_add(ctx, by_query, ggml_neg(ctx, mean));
    build.output(mean, out.mean.data());
    build.output(ggml_mul_mat(ctx, centred, centred), out.squares.data());  // [d, d, H]
}

void merge(const QueryMoments & from, int head_dim, KeptMoments & to) {
    if (from.n == 0 || (from.only_sinks && to.n > 0 && !to.only_sinks)) { return; }
    const auto d = static_cast<size_t>(head_dim);
    const size_t n_heads = from.mean.size() / d;
    const size_t n_kept = KeptMoments::n_squares(d);
    if (to.n == 0 || (to.only_sinks && !from.only_sinks)) {
        to.mean = from.mean;
        to.squares.assign(n_heads * n_kept, 0.0F);
        to.n = 0;
        to.only_sinks = from.only_sinks;
    }
    const auto n_from = static_cast<float>(from.n);
    const auto n_to = static_cast<float>(to.n);
    const float share = n_from / (n_from + n_to);
    const float weight = n_to * share;
    for (size_t head = 0; head < n_heads; ++head) {
        const float * of_new = from.mean.data() + head * d;
        float * mean = to.mean.data() + head * d;
        float * row = to.squares.data() + head * n_kept;
        for (size_t r = 0; r < d; ++r) {
            const float scaled = weight * (of_new[r] - mean[r]);
            if (from.squares.empty()) {
                for (size_t c = 0; c <= r; ++c) { row[c] += scaled * (of_new[c] - mean[c]); }
            } else {
                const float * add = from.squares.data() + (head * d + r) * d;
                for (size_t c = 0; c <= r; ++c) { row[c] += add[c] + scaled * (of_new[c] - mean[c]); }
            }
            row += r + 1;
        }
        for (size_t c = 0; c < d; ++c) { mean[c] += share * (of_new[c] - mean[c]); }
    }
    to.n += from.n;
}

Status make_mean_rotation(GraphRunner & runner, const ModelFile & model, int layer, int64_t first, int future,
                          MeanRotation & out) {
    const auto d = static_cast<int64_t>(model.hparams().head_dim);
    const int tile = tile_length(d * d);
    const auto size = static_cast<size_t>(d);
    std::vector<float> identity(size * size, 0.0F);
    for (size_t i = 0; i < size; ++i) { identity[i * size + i] = 1.0F; }
    std::vector<int32_t> positions(static_cast<size_t>(future));
    for (int i = 0; i < future; ++i) { positions[static_cast<size_t>(i)] = static_cast<int32_t>(first + i); }

    PITH_ASSIGN_OR_RETURN(GraphBuild * build, runner.begin(64 + 24 * n_tiles(future, tile)));
    ggml_context * ctx = build->ctx();
    ggml_tensor * basis = build->input(GGML_TYPE_F32, d, d, static_cast<const float *>(identity.data()));
    ggml_tensor * sum = nullptr;
    for_each_tile(future, tile, [&](int begin, int n) {
        ggml_tensor * at = build->input(GGML_TYPE_I32, n, 1, static_cast<const int32_t *>(positions.data()) + begin);
        // The basis vectors take the place of heads: [d, d, n].
        ggml_tensor * rotated =
            build_query_rotation(ctx, model.hparams(), model.weights(), layer, ggml_repeat_4d(ctx, basis, d, d, n, 1), at);
        ggml_tensor * part = ggml_sum_rows(ctx, ggml_cont(ctx, ggml_permute(ctx, rotated, 1, 2, 0, 3)));  // [1, d, d]
        sum = sum == nullptr ? part : ggml_add(ctx, sum, part);
    });
    std::vector<float> mean(size * size);  // row i: the mean rotated basis vector i
    build->output(ggml_scale(ctx, sum, 1.0F / static_cast<float>(future)), mean.data());
    PITH_RETURN_IF_ERROR(runner.run());

    out.first = first;
    out.future = future;
    out.rows.assign(size, {});
    for (size_t i = 0; i < size; ++i) {
        for (size_t r = 0; r < size; ++r) {
            if (mean[i * size + r] != 0.0F) { out.rows[r].push_back({static_cast<int>(i), double{mean[i * size + r]}}); }
        }
    }
    return {};
}

namespace {

// The model's scale in f64: the usual one unrounded.
double precise_scale(const CacheLayout & layout) {
    const int d = layout.shape.head_dim;
    return layout.attention_scale == usual_attention_scale(d) ? 1.0 / std::sqrt(static_cast<double>(d))
                                                              : double{layout.attention_scale};
}

// [d][d] of one head.
std::vector<float> whole_squares(const KeptMoments & moments, size_t head, size_t d) {
    std::vector<float> whole(d * d);
    const float * row = moments.squares.data() + head * KeptMoments::n_squares(d);
    for (size_t r = 0; r < d; ++r) {
        for (size_t c = 0; c <= r; ++c) { whole[r * d + c] = whole[c * d + r] = row[c]; }
        row += r + 1;
    }
    return whole;
}

// One query head's linear and quadratic form in k: s·R̄μ [d] and s²·R̄ΣR̄ᵀ/2 [d][d].
void forms_of_head(const KeptMoments & moments, const MeanRotation & rotation, double scale, size_t head,
                   std::span<float> linear, std::span<float> quadratic) {
    const size_t d = rotation.rows.size();
    const float * mean = moments.mean.data() + head * d;
    const std::vector<float> squares = whole_squares(moments, head, d);
    const double per_query = scale * scale / (static_cast<double>(moments.n) * 2.0);
    std::vector<double> half(d);  // a row of R̄·Σ
    for (size_t r = 0; r < d; ++r) {
        double sum = 0;
        std::ranges::fill(half, 0.0);
        for (const auto & [column, value] : rotation.rows[r]) {
            const auto i = static_cast<size_t>(column);
            sum += value * mean[i];
            for (size_t c = 0; c < d; ++c) { half[c] += value * squares[i * d + c]; }
        }
        linear[r] = static_cast<float>(sum * scale);
        for (size_t c = 0; c < d; ++c) {
            double element = 0;
            for (const auto & [column, value] : rotation.rows[c]) { element += value * half[static_cast<size_t>(column)]; }
            quadratic[r * d + c] = static_cast<float>(element * per_query);
        }
    }
}

// k·(Q·k + linear) of every entry.
Status exponents_on_cpu(GraphRunner & runner, const RaggedCache & cache, int seq, int layer, std::span<const float> linear,
                        std::span<const float> quadratic, Ragged<float> & out) {
    const int d = cache.layout().shape.head_dim;
    const int n_group = cache.layout().shape.n_group;
    std::vector<PackedColumns> forms;
    for (int head = 0; head < cache.layout().shape.n_heads(); ++head) {
        const float * of_head = quadratic.data() + int64_t{head} * d * d;
        forms.emplace_back(
            d, d, [&](int c, int r) { return of_head[r * d + c]; }, linear.data() + int64_t{head} * d);
    }
    return for_each_lane_tile(runner, cache, cache.k(layer), seq, layer, [&](const LaneTile & tile) {
        for (int head = tile.kv_head * n_group; head < (tile.kv_head + 1) * n_group; ++head) {
            reduce_products(tile.entries, forms[static_cast<size_t>(head)], Reduction::kForm,
                            out.row(head).data() + tile.first);
        }
    });
}

}  // namespace

Status expected_exponents(GraphRunner & runner, const RaggedCache & cache, int seq, int layer, const KeptMoments & moments,
                          const MeanRotation & rotation, std::span<const float> query_weight, Ragged<float> & out) {
    const CacheShape & shape = cache.layout().shape;
    const auto d = static_cast<size_t>(shape.head_dim);
    const auto n_heads = static_cast<size_t>(shape.n_heads());
    std::vector<float> linear(n_heads * d);
    std::vector<float> quadratic(n_heads * d * d);
    for (size_t head = 0; head < n_heads; ++head) {
        forms_of_head(moments, rotation, precise_scale(cache.layout()), head, std::span(linear).subspan(head * d, d),
                      std::span(quadratic).subspan(head * d * d, d * d));
    }
    for (size_t i = 0; i < linear.size() && !query_weight.empty(); ++i) {
        const float of_row = query_weight[i % d];
        linear[i] *= of_row;
        for (size_t c = 0; c < d; ++c) { quadratic[i * d + c] *= of_row * query_weight[c]; }
    }

    const std::vector<int> lengths = lane_lengths(cache, seq, layer, 1);
    const int64_t wide = int64_t{shape.head_dim} * shape.n_group;
    const int tile = tile_length(wide);
    out = Ragged<float>(lane_lengths(cache, seq, layer, shape.n_group));
    if (out.size() == 0) { return {}; }
    const auto cap = [&] {
        const float softcap = cache.layout().attention_softcap;
        for (float & x : out.flat()) { x = softcap == 0.0F ? x : softcap * std::tanh(x / softcap); }
    };
    if (reads_entries(runner, cache.k(layer))) {
        PITH_RETURN_IF_ERROR(exponents_on_cpu(runner, cache, seq, layer, linear, quadratic, out));
        cap();
        return {};
    }
    size_t tiles = 0;
    for (const int length : lengths) { tiles += n_tiles(length, tile); }
    PITH_ASSIGN_OR_RETURN(GraphBuild * build, runner.begin(64 + (16 + kMadeNodes) * tiles + 8 * lengths.size()));
    ggml_context * ctx = build->ctx();
    for (int h = 0; h < shape.n_kv_heads; ++h) {
        const int length = lengths[static_cast<size_t>(h)];
        if (length == 0) { continue; }
        const size_t first_head = static_cast<size_t>(h * shape.n_group);
        const float * forms = quadratic.data() + first_head * d * d;
        ggml_tensor * q = build->input(GGML_TYPE_F32, shape.head_dim, wide, forms);
        ggml_tensor * m = build->input(GGML_TYPE_F32, shape.head_dim, shape.n_group,
                                       static_cast<const float *>(linear.data()) + first_head * d);
        for_each_tile(length, tile, [&](int first, int n) {
            ggml_tensor * keys = entries_as_made(*build, cache, cache.k(layer), seq, layer, h, first, n);
            // k·(s²·Σ̄·k/2 + s·μ̄)
            ggml_tensor * y = ggml_reshape_3d(ctx, ggml_mul_mat(ctx, q, keys), shape.head_dim, shape.n_group, n);
            y = ggml_mul(ctx, ggml_add(ctx, y, m), ggml_view_3d(ctx, keys, shape.head_dim, 1, n, keys->nb[1], keys->nb[1], 0));
            y = ggml_reshape_2d(ctx, ggml_sum_rows(ctx, y), shape.n_group, n);
            build->output_rows(ggml_cont(ctx, ggml_transpose(ctx, y)), n, out.row(h * shape.n_group).data() + first,
                               static_cast<size_t>(length));
        });
    }
    PITH_RETURN_IF_ERROR(runner.run());
    cap();
    return {};
}

}  // namespace pith
