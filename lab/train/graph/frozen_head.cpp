// frozen_head.cpp - a frozen output matrix and the loss in one. Stage: train.
#include "train/graph/frozen_head.h"

#include <ggml.h>

#include <algorithm>
#include <vector>

#include "train/graph/fast_ops.h"
#include "train/graph/frozen_product.h"
#include "train/kernels/row_ops.h"

namespace pith::train {
namespace {

// Logits of one block. Every block expands a quantised matrix anew: it must be large enough for that to cost little.
constexpr int64_t kBlockFloats = int64_t{1} << 23;
constexpr int64_t kFewestRows = 64;

}  // namespace

void frozen_head(const ggml_tensor * weight, const float * x, int64_t n, Loss & loss, float * d_x, bool bf16) {
    thread_local std::vector<float> logits, rows, gradients;
    thread_local std::vector<size_t> wanted;
    const int64_t width = weight->ne[0];
    const int64_t n_vocab = weight->ne[1];
    std::fill(loss.nll.begin(), loss.nll.end(), 0.0F);
    std::fill(loss.hit.begin(), loss.hit.end(), uint8_t{0});
    if (d_x != nullptr) { std::fill(d_x, d_x + width * n, 0.0F); }
    wanted.clear();
    for (size_t i = 0; i < static_cast<size_t>(n); ++i) {
        if (loss.weights[i] > 0.0F) { wanted.push_back(i); }
    }
    const auto block = static_cast<size_t>(std::max(kFewestRows, kBlockFloats / n_vocab));
    for (size_t begin = 0; begin < wanted.size(); begin += block) {
        const size_t size = std::min(block, wanted.size() - begin);
        const auto m = static_cast<int64_t>(size);
        rows.resize(size * static_cast<size_t>(width));
        logits.resize(size * static_cast<size_t>(n_vocab));
        for (size_t r = 0; r < size; ++r) {
            const float * row = x + static_cast<int64_t>(wanted[begin + r]) * width;
            std::copy(row, row + width, rows.data() + r * static_cast<size_t>(width));
        }
        frozen_product(weight, {rows.data(), width, 1}, m, logits.data(), n_vocab, bf16);
        for (size_t r = 0; r < size; ++r) {
            const size_t i = wanted[begin + r];
            float * row = logits.data() + r * static_cast<size_t>(n_vocab);
            loss.nll[i] = row_nll(row, n_vocab, loss.targets[i], loss.hit[i]);
            if (d_x != nullptr) { row_nll_gradient(row, row, n_vocab, loss.targets[i], loss.weights[i] * loss.scale); }
        }
        if (d_x == nullptr) { continue; }
        gradients.resize(size * static_cast<size_t>(width));
        frozen_product_back(weight, {logits.data(), n_vocab, 1}, m, gradients.data(), bf16);
        for (size_t r = 0; r < size; ++r) {
            const float * row = gradients.data() + r * static_cast<size_t>(width);
            std::copy(row, row + width, d_x + static_cast<int64_t>(wanted[begin + r]) * width);
        }
    }
}

}  // namespace pith::train
