// mul_mat.h - how graphs multiply by weights: ggml's product, or Pith's own of f32 weights on the CPU. Stage: model.
//
//   weight [n_in, n_out], x f32 [n_in, n]  →  f32 [n_out, n]
#pragma once

#include <ggml.h>

#include "device/graph_runner.h"

namespace pith {

using MulMatFn = ggml_tensor * (*)(ggml_context * ctx, ggml_tensor * weight, ggml_tensor * x);

// For f32 matrices in the host's memory an operation of Pith's own (model/cpu/f32_product.h), for all others ggml's: quantised
// weights have products there that serve many rows.   REQUIRES: the graph runs on the CPU; f32_product_pays().
ggml_tensor * cpu_mul_mat(ggml_context * ctx, ggml_tensor * weight, ggml_tensor * x);

// What fits a graph: ggml's where no operations of Pith's own may be in it, or where they do not pay.
MulMatFn mul_mat_of(const GraphBuild & build);

}  // namespace pith
