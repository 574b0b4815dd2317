// gemm.h - f32 matrix products of the training step on the CPU. Stage: train.
// Pure C++: no ggml, no I/O. ggml 0.27 runs the backward of a product (OUT_PROD) an order slower than the forward.
//
//   c(i, j) = sum over p of a(i, p) · b(j, p)      i < m, j < n, p < k; a, b, c f32
// Element (i, p) of `a` lies at a.data[i·a.outer + p·a.inner]; likewise (j, p) of `b`. c(i, j) lies at c[i + j·ldc].
// Errors: none.   Cost: 2·m·n·k operations.   Threads: reentrant; several may do a range each.
#pragma once

#include <cstddef>
#include <cstdint>

namespace pith::train {

inline constexpr int64_t kGemmTileM = 32;

struct MatrixView {
    const float * data = nullptr;
    ptrdiff_t outer = 0;  // stride of i or j
    ptrdiff_t inner = 0;  // stride of p
};

struct GemmShape {
    int64_t m = 0;
    int64_t n = 0;
    int64_t k = 0;
};

// Only columns [j_begin, j_end) and rows [i_begin, i_end) of c; begins are multiples of 32.
struct GemmRange {
    int64_t i_begin = 0, i_end = 0, j_begin = 0, j_end = 0;
};
void gemm_range(const GemmShape & shape, const MatrixView & a, const MatrixView & b, float * c, ptrdiff_t ldc,
                const GemmRange & range);

}  // namespace pith::train
