// frozen_head.h - a frozen output matrix and the loss in one: the logits of all tokens never exist at once. Stage: train.
// A vocabulary of 150,000 makes the logits of 8,192 tokens 5 GB, their gradient as much; here a block of rows at a time becomes
// logits, losses, and the gradient of what went in. Rows without a weight (padding, prompts) cost nothing.
// Threads: reentrant, each with a Loss of its own.
#pragma once

#include <cstdint>

struct ggml_tensor;

namespace pith::train {

struct Loss;

// x f32 [D, n], weight [D, n_vocab]. Fills loss.nll and loss.hit; d_x [D, n], if not null, becomes the gradient of
// loss.scale · sum of weight · nll.
void frozen_head(const ggml_tensor * weight, const float * x, int64_t n, Loss & loss, float * d_x, bool bf16);

}  // namespace pith::train
