// entry_norms.cpp - norms of keys and values, cosines of keys.
#include "evidence/entry_norms.h"

#include <cmath>
#include <limits>
#include <vector>

#include "evidence/cpu_lane_entries.h"
#include "evidence/lane_tiles.h"

namespace pith {
namespace {

constexpr float kTiny = 1e-30F;

size_t count_tiles(const std::vector<int> & lengths, int tile) {
    size_t n = 0;
    for (const int length : lengths) { n += n_tiles(length, tile); }
    return n;
}

ggml_tensor * l2_of_columns(ggml_context * ctx, ggml_tensor * x) {
    return ggml_sqrt(ctx, ggml_sum_rows(ctx, ggml_mul(ctx, x, x)));  // [1, n]
}

Status norms_of(GraphRunner & runner, const RaggedCache & cache, ggml_tensor * flat, int seq, int layer, EntryNorm norm,
                Ragged<float> & out) {
    const std::vector<int> lengths = lane_lengths(cache, seq, layer, 1);
    const int tile = tile_length(flat->ne[0]);
    out = Ragged<float>(lengths);
    if (out.size() == 0) { return {}; }
    if (reads_entries(runner, flat)) {
        const auto measure = [&](const LaneTile & one) {
            norms_of_entries(one.entries, norm, out.row(one.kv_head).data() + one.first);
        };
        if (norm == EntryNorm::kL1) { return for_each_lane_tile(runner, cache, flat, seq, layer, measure); }
        const std::vector<LaneTile> tiles = tiles_of_lanes(cache, flat, seq, layer);  // of a rotated row it is the same
        return run_tasks(runner, static_cast<int>(tiles.size()), [&](int i) { measure(tiles[static_cast<size_t>(i)]); });
    }
    PITH_ASSIGN_OR_RETURN(GraphBuild * build, runner.begin(64 + (8 + kMadeNodes) * count_tiles(lengths, tile)));
    ggml_context * ctx = build->ctx();
    for (int h = 0; h < out.n_rows(); ++h) {
        for_each_tile(out.length(h), tile, [&](int first, int n) {
            ggml_tensor * rows = entries_as_made(*build, cache, flat, seq, layer, h, first, n);
            ggml_tensor * result = norm == EntryNorm::kL2 ? l2_of_columns(ctx, rows) : ggml_sum_rows(ctx, ggml_abs(ctx, rows));
            build->output(result, out.row(h).data() + first);
        });
    }
    return runner.run();
}

// Two sweeps over the keys: unit keys summed tile by tile and then in order, and cosines to the sum.
Status cosines_on_cpu(GraphRunner & runner, const RaggedCache & cache, int seq, int layer, Ragged<float> & out) {
    const ggml_tensor * keys = cache.k(layer);
    const auto d = static_cast<size_t>(keys->ne[0]);
    const std::vector<LaneTile> tiles = tiles_of_lanes(cache, keys, seq, layer);
    const auto n_tiles = static_cast<int>(tiles.size());
    std::vector<double> sums(tiles.size() * d, 0.0);
    PITH_RETURN_IF_ERROR(run_tasks(runner, n_tiles, [&](int i) {
        visit_as_made(cache, keys, layer, tiles[static_cast<size_t>(i)],
                      [&](const EntryRows & made) { add_unit_entries(made, sums.data() + static_cast<size_t>(i) * d); });
    }));
    std::vector<double> sum_of_lane(static_cast<size_t>(out.n_rows()) * d, 0.0);
    for (size_t i = 0; i < tiles.size(); ++i) {
        double * to = sum_of_lane.data() + static_cast<size_t>(tiles[i].kv_head) * d;
        for (size_t c = 0; c < d; ++c) { to[c] += sums[i * d + c]; }
    }
    std::vector<float> directions(sum_of_lane.size(), 0.0F);
    for (size_t first = 0; first < directions.size(); first += d) {
        double squares = 0;
        for (size_t c = first; c < first + d; ++c) { squares += sum_of_lane[c] * sum_of_lane[c]; }
        if (squares == 0) { continue; }
        const double scale = 1.0 / std::sqrt(squares);
        for (size_t c = first; c < first + d; ++c) { directions[c] = static_cast<float>(sum_of_lane[c] * scale); }
    }
    return run_tasks(runner, n_tiles, [&](int i) {
        const LaneTile & one = tiles[static_cast<size_t>(i)];
        visit_as_made(cache, keys, layer, one, [&](const EntryRows & made) {
            project_unit_entries(made, directions.data() + static_cast<size_t>(one.kv_head) * d,
                                 out.row(one.kv_head).data() + one.first);
        });
    });
}

}  // namespace

Status value_norms(GraphRunner & runner, const RaggedCache & cache, int seq, int layer, EntryNorm norm, Ragged<float> & out) {
    return norms_of(runner, cache, cache.v(layer), seq, layer, norm, out);
}

Status key_cosines(GraphRunner & runner, const RaggedCache & cache, int seq, int layer, Ragged<float> & out) {
    const std::vector<int> lengths = lane_lengths(cache, seq, layer, 1);
    ggml_tensor * keys = cache.k(layer);
    const int tile = tile_length(keys->ne[0]);
    out = Ragged<float>(lengths);
    if (out.size() == 0) { return {}; }
    if (reads_entries(runner, keys)) { return cosines_on_cpu(runner, cache, seq, layer, out); }
    PITH_ASSIGN_OR_RETURN(GraphBuild * build,
                          runner.begin(64 + (24 + 2 * kMadeNodes) * count_tiles(lengths, tile) + 8 * lengths.size()));
    ggml_context * ctx = build->ctx();
    const auto at_least_tiny = [&](ggml_tensor * x) { return ggml_clamp(ctx, x, kTiny, std::numeric_limits<float>::max()); };
    for (int h = 0; h < out.n_rows(); ++h) {
        ggml_tensor * sum = nullptr;  // of the unit keys [d]; its direction is the mean's
        std::vector<ggml_tensor *> norms;
        for_each_tile(out.length(h), tile, [&](int first, int n) {
            ggml_tensor * rows = entries_as_made(*build, cache, keys, seq, layer, h, first, n);
            norms.push_back(at_least_tiny(l2_of_columns(ctx, rows)));  // [1, n]
            ggml_tensor * unit = ggml_div(ctx, rows, norms.back());
            ggml_tensor * part = ggml_sum_rows(ctx, ggml_cont(ctx, ggml_transpose(ctx, unit)));  // [1, d]
            sum = sum == nullptr ? part : ggml_add(ctx, sum, part);
        });
        if (sum == nullptr) { continue; }
        sum = ggml_reshape_1d(ctx, sum, keys->ne[0]);
        ggml_tensor * mean = ggml_div(ctx, sum, at_least_tiny(l2_of_columns(ctx, sum)));
        size_t i = 0;
        for_each_tile(out.length(h), tile, [&](int first, int n) {
            ggml_tensor * dots =
                ggml_mul_mat(ctx, mean, entries_as_made(*build, cache, keys, seq, layer, h, first, n));  // [1, n]
            build->output(ggml_div(ctx, dots, norms[i++]), out.row(h).data() + first);
        });
    }
    return runner.run();
}

}  // namespace pith
