// output_factors.cpp - Gram matrices of the output projection's slices, and their factors.
#include "model/output_factors.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "core/simd.h"
#include "device/device_work.h"
#include "ggml-backend.h"

namespace pith {
namespace {

constexpr size_t kRows = 4;                 // of a block of the Gram matrix that stays in registers
constexpr size_t kCols = 2 * kDoubleLanes;  // dv is padded to a multiple of it
constexpr size_t kDepth = 256;              // rows of the projection at a time

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"

// gram [width][width] += panel [n][width]ᵀ · panel, the blocks on and below the diagonal.
PITH_CLONES void add_gram(const double * panel, size_t n, size_t width, double * gram) {
    for (size_t r = 0; r < width; r += kRows) {
        for (size_t c = 0; c < r + kRows; c += kCols) {
            DoubleVec low[kRows] = {};
            DoubleVec high[kRows] = {};
            for (size_t i = 0; i < n; ++i) {
                const double * row = panel + i * width;
                DoubleVec a;
                DoubleVec b;
                load(a, row + c);
                load(b, row + c + kDoubleLanes);
                for (size_t k = 0; k < kRows; ++k) {
                    low[k] += a * row[r + k];
                    high[k] += b * row[r + k];
                }
            }
            for (size_t k = 0; k < kRows; ++k) {
                for (size_t l = 0; l < kDoubleLanes; ++l) {
                    gram[(r + k) * width + c + l] += low[k][l];
                    gram[(r + k) * width + c + kDoubleLanes + l] += high[k][l];
                }
            }
        }
    }
}

#pragma GCC diagnostic pop

// Cholesky with pivoting of the lower triangle: at every step the largest diagonal that is left. Column k of the factor goes to
// factor[k][·]; columns beyond the numerical rank stay 0.
void factor_gram(std::vector<double> & gram, size_t width, size_t dv, float * factor) {
    const auto at = [&](size_t r, size_t c) -> double & { return gram[std::max(r, c) * width + std::min(r, c)]; };
    std::vector<size_t> left(dv);
    std::iota(left.begin(), left.end(), size_t{0});
    double largest = 0;
    for (size_t i = 0; i < dv; ++i) { largest = std::max(largest, at(i, i)); }
    const double negligible = largest * static_cast<double>(dv) * std::numeric_limits<double>::epsilon();
    std::vector<double> column(dv);
    for (size_t k = 0; k < dv && !left.empty(); ++k) {
        const auto best = std::ranges::max_element(left, {}, [&](size_t i) { return at(i, i); });
        const size_t pivot = *best;
        const double diagonal = at(pivot, pivot);
        if (!(diagonal > negligible)) { return; }
        const double root = std::sqrt(diagonal);
        left.erase(best);
        for (const size_t i : left) { column[i] = at(i, pivot) / root; }
        factor[k * dv + pivot] = static_cast<float>(root);
        for (const size_t i : left) {
            factor[k * dv + i] = static_cast<float>(column[i]);
            for (const size_t j : left) {
                if (j <= i) { at(i, j) -= column[i] * column[j]; }
            }
        }
    }
}

}  // namespace

Result<std::vector<float>> factor_slices(std::span<const float> rows, size_t n_heads, size_t dv, const RunTasks & run) {
    const size_t width = (dv + kCols - 1) / kCols * kCols;
    const size_t row_size = n_heads * dv;
    const size_t n_rows = rows.size() / row_size;
    std::vector<float> factors(n_heads * dv * dv, 0.0F);
    PITH_RETURN_IF_ERROR(run(static_cast<int>(n_heads), [&](int head) {
        const auto g = static_cast<size_t>(head);
        std::vector<double> panel(kDepth * width, 0.0);
        std::vector<double> gram(width * width, 0.0);
        for (size_t first = 0; first < n_rows; first += kDepth) {
            const size_t n = std::min(kDepth, n_rows - first);
            for (size_t i = 0; i < n; ++i) {
                std::copy_n(rows.data() + (first + i) * row_size + g * dv, dv, panel.data() + i * width);
            }
            add_gram(panel.data(), n, width, gram.data());
        }
        factor_gram(gram, width, dv, factors.data() + g * dv * dv);
    }));
    return factors;
}

Result<OutputProjection> effective_projection(const ModelFile & model, int layer) {
    PITH_ASSIGN_OR_RETURN(OutputProjection rows, model.read_output_projection(layer));
    const ggml_tensor * norm =
        model.weights().layers.empty() ? nullptr : model.weights().layers[static_cast<size_t>(layer)].attn_post_norm;
    if (norm == nullptr) { return rows; }
    std::vector<float> weight(static_cast<size_t>(norm->ne[0]));
    PITH_RETURN_IF_ERROR(read_tensor(norm, weight.data(), 0, ggml_nbytes(norm)));
    const size_t width = rows.size() / weight.size();
    for (size_t i = 0; i < rows.size(); ++i) { rows[i] *= weight[i / width]; }
    return rows;
}

OutputFactors::OutputFactors(std::shared_ptr<const ModelFile> file)
    : file_(std::move(file)),
      factors_(static_cast<size_t>(file_->hparams().n_layers)),
      group_factors_(static_cast<size_t>(file_->hparams().n_layers)) {}

Result<std::span<const float>> OutputFactors::get(Slot & slot, int layer, size_t n_slices, size_t width, const RunTasks & run) {
    if (!slot.made) {
        const std::lock_guard lock(slot.making);
        if (!slot.made) {
            PITH_ASSIGN_OR_RETURN(const OutputProjection rows, effective_projection(*file_, layer));
            PITH_ASSIGN_OR_RETURN(slot.factors, factor_slices(rows, n_slices, width, run));
            size_bytes_ += slot.factors.capacity() * sizeof(float);
            slot.made = true;
        }
    }
    return std::span<const float>(slot.factors);
}

Result<std::span<const float>> OutputFactors::factor(int layer, const RunTasks & run) {
    const Hparams & hp = file_->hparams();
    return get(factors_[static_cast<size_t>(layer)], layer, static_cast<size_t>(hp.n_heads), static_cast<size_t>(hp.head_dim_v),
               run);
}

Result<std::span<const float>> OutputFactors::group_factor(int layer, const RunTasks & run) {
    const Hparams & hp = file_->hparams();
    const auto n_group = static_cast<size_t>(hp.n_heads / hp.n_kv_heads);
    return get(group_factors_[static_cast<size_t>(layer)], layer, static_cast<size_t>(hp.n_kv_heads),
               n_group * static_cast<size_t>(hp.head_dim_v), run);
}

}  // namespace pith
