// frozen_product.cpp - products with a frozen weight of any type. Stage: train.
#include "train/graph/frozen_product.h"

#include <ggml.h>

#include <algorithm>
#include <vector>

#include "train/kernels/gemm_bf16.h"
#include "train/kernels/row_ops.h"

namespace pith::train {
namespace {

constexpr int64_t kScratchFloats = int64_t{1} << 20;  // expanded at a time: 4 MiB

// Calls use(rows [begin, end) as f32 [k, end - begin], begin, end) for all rows in turn.
template <class Use>
void for_rows(const ggml_tensor * weight, const Use & use) {
    thread_local std::vector<float> scratch;
    const int64_t width = weight->ne[0];
    const int64_t n_rows = weight->ne[1];
    if (weight->type == GGML_TYPE_F32) {
        use(static_cast<const float *>(weight->data), int64_t{0}, n_rows);
        return;
    }
    const int64_t step = std::max(kGemmTileM, kScratchFloats / width / kGemmTileM * kGemmTileM);
    scratch.resize(static_cast<size_t>(std::min(step, n_rows) * width));
    for (int64_t begin = 0; begin < n_rows; begin += step) {
        const int64_t end = std::min(n_rows, begin + step);
        const char * bytes = static_cast<const char *>(weight->data) + static_cast<size_t>(begin) * weight->nb[1];
        ggml_get_type_traits(weight->type)->to_float(bytes, scratch.data(), (end - begin) * width);
        use(scratch.data(), begin, end);
    }
}

}  // namespace

void frozen_product(const ggml_tensor * weight, const MatrixView & x, int64_t n, float * out, ptrdiff_t ldc, bool bf16) {
    const int64_t width = weight->ne[0];
    for_rows(weight, [&](const float * rows, int64_t begin, int64_t end) {
        (bf16 ? gemm_bf16_range : gemm_range)({end - begin, n, width}, {rows, width, 1}, x, out + begin, ldc,
                                              {0, end - begin, 0, n});
    });
}

void frozen_product_back(const ggml_tensor * weight, const MatrixView & x, int64_t n, float * out, bool bf16) {
    thread_local std::vector<float> sum;
    const int64_t width = weight->ne[0];
    for_rows(weight, [&](const float * rows, int64_t begin, int64_t end) {
        if (begin > 0) { sum.resize(static_cast<size_t>(width * n)); }
        float * part = begin == 0 ? out : sum.data();
        (bf16 ? gemm_bf16_range : gemm_range)({width, n, end - begin}, {rows, 1, width},
                                              {x.data + begin * x.inner, x.outer, x.inner}, part, width, {0, width, 0, n});
        if (begin > 0) { add_to(out, part, width * n); }
    });
}

}  // namespace pith::train
