// f32_product.h - the CPU's product of f32 weights with rows of activations. Stage: model. Raw pointers only: no ggml.
//
//   out(j, i) = Σ_c weights(i, c) · x(j, c)      i < n_out, j < n, c < n_in
// A tile of rows of both stays in registers, so that a row of weights is read once for several rows of x. ggml's own product
// has that for f32 weights only where it was built with llamafile's, which Debian's is not: there every row of x costs as much
// in a batch as alone. The order of an output's sum depends on n_in and the instruction set alone: a row of x has the same bits
// alone, in any batch, in any piece of a prompt, and on any number of threads. Cost:  n · n_out · n_in multiply-adds; nothing
// is copied.   Threads: each computes a part.
#pragma once

#include <cstddef>

namespace pith {

struct F32Product {
    const float * weights = nullptr;  // [n_out][weight_stride]
    const float * x = nullptr;        // [n][x_stride]
    float * out = nullptr;            // [n][out_stride], overwritten
    size_t weight_stride = 0;         // floats from row to row, as the two below
    size_t x_stride = 0;
    size_t out_stride = 0;
    size_t n_in = 0;  // at least 1
    size_t n_out = 0;
    size_t n = 0;
};

// The part of thread ith of n_threads.
void multiply_part(const F32Product & product, int ith, int n_threads);

// Whether this processor has vectors with fused multiply-adds: without, ggml's product is as fast.
bool f32_product_pays();

}  // namespace pith
