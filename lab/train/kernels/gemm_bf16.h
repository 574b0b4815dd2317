// gemm_bf16.h - the products of the training step in bf16: on x86's matrix unit (AMX), else AVX-512's dot products. Stage:
// train. Same products and views as gemm.h; operands are rounded to bf16 (8 bits of mantissa), sums stay f32: the usual mixed
// precision of training, several times faster. Threads: reentrant.
#pragma once

#include <span>

#include "train/kernels/gemm.h"

namespace pith::train {

enum class Bf16Unit { kAvx512, kAmx };

// What this processor and kernel have, the fastest last; asked for once.
std::span<const Bf16Unit> bf16_units();
inline bool has_bf16_gemm() {
    return !bf16_units().empty();
}

// REQUIRES: bf16_units() has the unit; the range's begins are multiples of 32.
void gemm_bf16_on(Bf16Unit unit, const GemmShape & shape, const MatrixView & a, const MatrixView & b, float * c, ptrdiff_t ldc,
                  const GemmRange & range);

// On the fastest. REQUIRES: has_bf16_gemm().
inline void gemm_bf16_range(const GemmShape & shape, const MatrixView & a, const MatrixView & b, float * c, ptrdiff_t ldc,
                            const GemmRange & range) {
    gemm_bf16_on(bf16_units().back(), shape, a, b, c, ldc, range);
}

}  // namespace pith::train
