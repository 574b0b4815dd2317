// mul_mat.h - how graphs multiply by weights: ggml's product, or Pith's own on the CPU. Stage: model.
//
//   weight [n_in, n_out], x f32 [n_in, n]  →  f32 [n_out, n]
#pragma once

#include <ggml.h>

#include "device/graph_runner.h"

namespace pith {

using MulMatFn = ggml_tensor * (*)(ggml_context * ctx, ggml_tensor * weight, ggml_tensor * x);

// Operations of Pith's own for f32 matrices (matmul/f32_product.h) and, where they pay, for quantised ones of these types
// (matmul/quantised_product.h), both in the host's memory as the file has them; ggml's for all others. Products of the same x,
// one behind the other in a graph, round it to 8 bits once.   REQUIRES: the graph runs on the CPU.
ggml_tensor * cpu_mul_mat(ggml_context * ctx, ggml_tensor * weight, ggml_tensor * x);

// What fits a graph: ggml's where no operations of Pith's own may be in it.
MulMatFn mul_mat_of(const GraphBuild & build);

// Whether cpu_mul_mat() has a product of its own for quantised matrices of this type and width: then they are best left as the
// file has them.
bool has_quantised_product(ggml_type type, int64_t n_in);

}  // namespace pith
