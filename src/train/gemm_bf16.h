// gemm_bf16.h - the products of the training step on a processor's matrix unit (x86 AMX). Stage: train.
// Same products and views as gemm.h; operands are rounded to bf16 (8 bits of mantissa), sums stay f32: the
// usual mixed precision of training, several times faster.
// Threads: reentrant.
#pragma once

#include "train/gemm.h"

namespace pith::train {

// True when processor and kernel have AMX for bf16; asks the kernel for it once.
bool has_bf16_gemm();

// REQUIRES: has_bf16_gemm(); the range's begins are multiples of 32.
void gemm_bf16_range(const GemmShape & shape, const MatrixView & a, const MatrixView & b, float * c, ptrdiff_t ldc,
                     const GemmRange & range);

}  // namespace pith::train
