// row_ops.h - the row-wise arithmetic of the training step. Stage: train.
// Pure C++: no ggml, no I/O. All f32.   Threads: reentrant.
#pragma once

#include <cstdint>

namespace pith::train {

// row[0 … len-1] = softmax(scale · row[0 … len-1]); zero from there to n.
void softmax_row(float * row, int64_t len, int64_t n, float scale);

// grad[0 … len-1] = scale · p · (grad - sum(p · grad)); zero from there to n.
void softmax_back_row(float * grad, const float * p, int64_t len, int64_t n, float scale);

// -log softmax(row)[target]; hit: no logit is greater than the target's.
float row_nll(const float * row, int64_t n, int32_t target, uint8_t & hit);
// out = (softmax(row) - onehot(target)) · weight
void row_nll_gradient(const float * row, float * out, int64_t n, int32_t target, float weight);

void add_to(float * out, const float * in, int64_t n);  // out += in

// out = grad · d silu(x) / dx
void silu_back(const float * grad, const float * x, float * out, int64_t n);

}  // namespace pith::train
