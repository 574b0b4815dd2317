// lane_values.cpp - weighted means of values and the distances to them.
#include "evidence/lane_values.h"

#include <limits>
#include <string>

#include "evidence/group_outputs.h"
#include "evidence/lane_tiles.h"

namespace pith {

LaneValues::LaneValues(GraphRunner & runner, const RaggedCache & cache, int seq, int layer, std::span<const float> group_factor)
    : runner_(runner),
      cache_(cache),
      seq_(seq),
      layer_(layer),
      group_factor_(group_factor),
      lengths_(lane_lengths(cache, seq, layer, 1)) {}

Status LaneValues::check_unchanged() const {
    if (lengths_ == pith::lane_lengths(cache_, seq_, layer_, 1)) { return {}; }
    return {ErrorCode::kInternal,
            "the lanes of layer " + std::to_string(layer_) + " were compacted before their values were read"};
}

Status LaneValues::distances_to_mean(const Ragged<float> & weights, Ragged<float> & out) const {
    PITH_RETURN_IF_ERROR(check_unchanged());
    const auto n_lanes = static_cast<int>(lengths_.size());
    const int n_rows = weights.n_rows() / n_lanes;  // per lane
    bool fits = n_rows > 0 && weights.n_rows() == n_rows * n_lanes;
    for (int r = 0; fits && r < weights.n_rows(); ++r) {
        fits = weights.length(r) == lengths_[static_cast<size_t>(r / n_rows)];
    }
    if (!fits) {
        return {ErrorCode::kInternal, "distances to a weighted mean need a row of weights per head, as long as its lane"};
    }
    out = weights;  // the shape
    if (out.size() == 0) { return {}; }

    ggml_tensor * values = cache_.v(layer_);
    const int64_t d = values->ne[0];
    const int tile = tile_length(d);
    size_t tiles = 0;
    for (const int length : lengths_) { tiles += n_tiles(length, tile); }
    PITH_ASSIGN_OR_RETURN(GraphBuild * build,
                          runner_.begin(64 + tiles * (2 * kMadeNodes + static_cast<size_t>(10 + 6 * n_rows))));
    ggml_context * ctx = build->ctx();
    for (int h = 0; h < n_lanes; ++h) {
        const int length = lengths_[static_cast<size_t>(h)];
        if (length == 0) { continue; }
        const float * lane_weights = weights.row(h * n_rows).data();  // [n_rows][length]: a lane's rows lie side by side
        ggml_tensor * w = build->input(GGML_TYPE_F32, length, n_rows, lane_weights);
        ggml_tensor * mean = nullptr;  // [d, n_rows]
        for_each_tile(length, tile, [&](int first, int n) {
            ggml_tensor * rows = entries_as_made(*build, cache_, values, seq_, layer_, h, first, n);
            ggml_tensor * part = ggml_view_2d(ctx, w, n, n_rows, w->nb[1], static_cast<size_t>(first) * sizeof(float));
            part = ggml_mul_mat(ctx, ggml_cont(ctx, ggml_transpose(ctx, rows)), part);
            mean = mean == nullptr ? part : ggml_add(ctx, mean, part);
        });
        mean = ggml_neg(ctx, mean);
        for_each_tile(length, tile, [&](int first, int n) {
            ggml_tensor * rows = entries_as_made(*build, cache_, values, seq_, layer_, h, first, n);
            for (int r = 0; r < n_rows; ++r) {
                ggml_tensor * minus_mean = ggml_view_1d(ctx, mean, d, mean->nb[1] * static_cast<size_t>(r));
                ggml_tensor * difference = ggml_add(ctx, rows, minus_mean);  // [d, n]
                difference = ggml_sum_rows(ctx, ggml_mul(ctx, difference, difference));
                build->output(ggml_sqrt(ctx, difference), out.row(h * n_rows + r).data() + first);
            }
        });
    }
    return runner_.run();
}

Status LaneValues::output_errors(const Ragged<float> & weights, const Ragged<float> & odds, Ragged<float> & out) const {
    PITH_RETURN_IF_ERROR(check_unchanged());
    if (group_factor_.empty()) {
        return {ErrorCode::kMissingEvidence,
                "errors behind the output projection were not asked for when the evidence of layer " + std::to_string(layer_) +
                    " was gathered"};
    }
    return pith::output_errors(runner_, cache_, seq_, layer_, group_factor_, weights, odds, out);
}

namespace {

// One lane's, [length][width], into `out`.
Status read_lane(GraphRunner & runner, const RaggedCache & cache, ggml_tensor * flat, int seq, int layer, int kv_head,
                 int length, float * out) {
    if (length == 0) { return {}; }
    const auto width = static_cast<size_t>(flat->ne[0]);
    const int tile = tile_length(flat->ne[0]);
    PITH_ASSIGN_OR_RETURN(GraphBuild * build, runner.begin(64 + (4 + kMadeNodes) * n_tiles(length, tile)));
    for_each_tile(length, tile, [&](int first, int n) {
        ggml_tensor * rows = entries_as_made(*build, cache, flat, seq, layer, kv_head, first, n);
        build->output(ggml_cont(build->ctx(), rows), out + static_cast<size_t>(first) * width);
    });
    return runner.run();
}

}  // namespace

Status LaneValues::lane_values(int kv_head, std::vector<float> & out) const {
    PITH_RETURN_IF_ERROR(check_unchanged());
    const int length = lengths_[static_cast<size_t>(kv_head)];
    ggml_tensor * values = cache_.v(layer_);
    out.resize(static_cast<size_t>(length) * static_cast<size_t>(values->ne[0]));
    return read_lane(runner_, cache_, values, seq_, layer_, kv_head, length, out.data());
}

Status rows_of_lanes(GraphRunner & runner, const RaggedCache & cache, ggml_tensor * flat, int seq, int layer,
                     Ragged<float> & out) {
    const std::vector<int> lengths = lane_lengths(cache, seq, layer, 1);
    std::vector<int> sizes;
    for (const int length : lengths) {
        const int64_t n_numbers = length * flat->ne[0];
        if (n_numbers > std::numeric_limits<int>::max()) {
            return {ErrorCode::kOutOfMemory,
                    "a lane of " + std::to_string(length) +
                        " entries is too long for a scorer of your own that is shown rows: they have " +
                        std::to_string(n_numbers) + " numbers"};
        }
        sizes.push_back(static_cast<int>(n_numbers));
    }
    out = Ragged<float>(sizes);
    for (int h = 0; h < out.n_rows(); ++h) {
        PITH_RETURN_IF_ERROR(read_lane(runner, cache, flat, seq, layer, h, lengths[static_cast<size_t>(h)], out.row(h).data()));
    }
    return {};
}

}  // namespace pith
