// frozen_product.h - products with a frozen weight of any type, expanded a few rows at a time. Stage: train.
// Cost: that of the f32 product, and of dequantising the weight once.   Memory: some MiB for each thread.   Threads: reentrant.
#pragma once

#include "train/kernels/gemm.h"

struct ggml_tensor;

namespace pith::train {

// weight [k, m], a plain matrix that is f32 or can be dequantised.
// out(i, j) = sum over p < k of weight(p, i) · x(j, p), i < m, j < n; out(i, j) at out[i + j · ldc].
void frozen_product(const ggml_tensor * weight, const MatrixView & x, int64_t n, float * out, ptrdiff_t ldc, bool bf16);

// The way back: out(p, j) = sum over i < m of weight(p, i) · x(j, i), p < k, j < n; out(p, j) at out[p + j · k].
void frozen_product_back(const ggml_tensor * weight, const MatrixView & x, int64_t n, float * out, bool bf16);

}  // namespace pith::train
