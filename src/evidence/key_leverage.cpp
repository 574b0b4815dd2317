// key_leverage.cpp - keys turned back and sketched by a graph, their leverage by Cholesky's factor on the host.
#include "evidence/key_leverage.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <span>

#include "evidence/lane_tiles.h"
#include "model/layer_graph.h"
#include "policy/evidence/evidence.h"

namespace pith {
namespace {

constexpr size_t kSummedRows = 256;  // in f32; their sums are added in f64

// The finaliser of SplitMix64 (Steele, Lea and Flood, 2014), as a number in (0, 1].
double uniform_of(uint64_t x) {
    x = (x + 1) * 0x9E3779B97F4A7C15ULL;
    x = (x ^ (x >> 30U)) * 0xBF58476D1CE4E5B9ULL;
    x = (x ^ (x >> 27U)) * 0x94D049BB133111EBULL;
    return static_cast<double>(((x ^ (x >> 31U)) >> 11U) + 1) * 0x1p-53;
}

// rows [n][width], centred in place.
void centre(std::span<float> rows, size_t width) {
    std::vector<double> mean(width, 0.0);
    const auto each = [&](auto visit) {
        for (size_t first = 0; first < rows.size(); first += width) {
            for (size_t c = 0; c < width; ++c) { visit(rows[first + c], mean[c]); }
        }
    };
    each([](float x, double & sum) { sum += x; });
    const auto n = static_cast<double>(rows.size() / width);
    for (double & one : mean) { one /= n; }
    each([](float & x, double of_column) { x = static_cast<float>(x - of_column); });
}

// Σ x xᵀ + εI [width][width], the lower triangle.
std::vector<double> gram(std::span<const float> rows, size_t width) {
    std::vector<double> sum(width * width, 0.0);
    std::vector<float> part(width * width);
    const size_t n = rows.size() / width;
    for (size_t first = 0; first < n; first += kSummedRows) {
        std::ranges::fill(part, 0.0F);
        for (size_t i = first; i < std::min(n, first + kSummedRows); ++i) {
            const float * x = rows.data() + i * width;
            for (size_t r = 0; r < width; ++r) {
                float * to = part.data() + r * width;
                for (size_t c = 0; c <= r; ++c) { to[c] += x[r] * x[c]; }
            }
        }
        for (size_t i = 0; i < sum.size(); ++i) { sum[i] += part[i]; }
    }
    for (size_t r = 0; r < width; ++r) { sum[r * width + r] += kLeverageRidge; }
    return sum;
}

// The inverse of Cholesky's factor L of a matrix, lower triangle: [column][row], so that products run along rows.
std::vector<float> inverse_factor(std::vector<double> a, size_t width) {
    for (size_t r = 0; r < width; ++r) {
        for (size_t c = 0; c <= r; ++c) {
            double sum = a[r * width + c];
            for (size_t i = 0; i < c; ++i) { sum -= a[r * width + i] * a[c * width + i]; }
            // Rounding must not take away the ridge where fewer keys than dimensions leave nothing else.
            a[r * width + c] = r == c ? std::sqrt(std::max(sum, kLeverageRidge)) : sum / a[c * width + c];
        }
    }
    std::vector<float> inverse(width * width, 0.0F);
    std::vector<double> column(width);
    for (size_t c = 0; c < width; ++c) {
        for (size_t r = c; r < width; ++r) {
            double sum = r == c ? 1.0 : 0.0;
            for (size_t i = c; i < r; ++i) { sum -= a[r * width + i] * column[i]; }
            column[r] = sum / a[r * width + r];
            inverse[c * width + r] = static_cast<float>(column[r]);
        }
    }
    return inverse;
}

// rows [n][width]  →  out [n].
void leverages_of(std::span<float> rows, size_t width, std::span<float> out) {
    centre(rows, width);
    const std::vector<float> inverse = inverse_factor(gram(rows, width), width);
    std::vector<float> y(width);
    for (size_t j = 0; j < out.size(); ++j) {
        const float * x = rows.data() + j * width;
        std::ranges::fill(y, 0.0F);
        for (size_t c = 0; c < width; ++c) {
            const float * column = inverse.data() + c * width;
            for (size_t r = c; r < width; ++r) { y[r] += column[r] * x[c]; }
        }
        float sum = 0;
        for (const float one : y) { sum += one * one; }
        out[j] = std::min(sum, 1.0F);  // no more, but for rounding
    }
}

}  // namespace

std::vector<float> key_sketch(int head_dim) {
    if (head_dim <= kSketchColumns) { return {}; }
    std::vector<float> sketch(static_cast<size_t>(head_dim) * kSketchColumns);
    const double deviation = 1.0 / std::sqrt(static_cast<double>(kSketchColumns));
    for (size_t i = 0; i < sketch.size(); ++i) {  // Box and Muller's
        const double radius = std::sqrt(-2.0 * std::log(uniform_of(2 * i)));
        sketch[i] = static_cast<float>(deviation * radius * std::cos(2.0 * std::numbers::pi * uniform_of(2 * i + 1)));
    }
    return sketch;
}

Status key_leverages(GraphRunner & runner, const ModelFile & model, const RaggedCache & cache, int seq, int layer,
                     Ragged<float> & out) {
    const int d = cache.layout().shape.head_dim;
    const std::vector<float> sketch = key_sketch(d);
    const auto width = static_cast<size_t>(sketch.empty() ? d : kSketchColumns);
    const int tile = tile_length(d);
    out = Ragged<float>(lane_lengths(cache, seq, layer, 1), 1.0F);
    std::vector<float> rows;
    for (int h = 0; h < out.n_rows(); ++h) {
        const auto positions = cache.positions(cache.lane(seq, layer, h));
        const std::vector<int32_t> standing = cache.standing(cache.lane(seq, layer, h));
        const auto skipped = static_cast<int>(std::ranges::lower_bound(positions, kFirstTokens) - positions.begin());
        const int length = out.length(h) - skipped;
        if (length == 0) { continue; }
        rows.resize(static_cast<size_t>(length) * width);
        PITH_ASSIGN_OR_RETURN(GraphBuild * build, runner.begin(64 + (8 + kMadeNodes) * n_tiles(length, tile)));
        ggml_context * ctx = build->ctx();
        ggml_tensor * columns = sketch.empty()
                                    ? nullptr
                                    : build->input(GGML_TYPE_F32, d, kSketchColumns, static_cast<const float *>(sketch.data()));
        for_each_tile(length, tile, [&](int first, int n) {
            ggml_tensor * keys = entries_as_made(*build, cache, cache.k(layer), seq, layer, h, skipped + first, n);
            ggml_tensor * at = build->input(GGML_TYPE_I32, n, 1, standing.data() + skipped + first);
            keys = build_key_unrotation(ctx, model.hparams(), model.weights(), layer, ggml_reshape_3d(ctx, keys, d, 1, n), at);
            keys = ggml_reshape_2d(ctx, keys, d, n);
            ggml_tensor * sketched = columns == nullptr ? ggml_cont(ctx, keys) : ggml_mul_mat(ctx, columns, keys);
            build->output(sketched, rows.data() + static_cast<size_t>(first) * width);
        });
        PITH_RETURN_IF_ERROR(runner.run());
        leverages_of(rows, width, out.row(h).subspan(static_cast<size_t>(skipped)));
    }
    return {};
}

}  // namespace pith
