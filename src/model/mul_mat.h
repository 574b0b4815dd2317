// mul_mat.h - how graphs multiply by weights: ggml's products, or Pith's own on the CPU. Stage: model.
//
//   weight [n_in, n_out], x f32 [n_in, n]  →  f32 [n_out, n]
//   of experts: weight [n_in, n_out, n_experts], x f32 [n_in, 1 or used, n], chosen i32 [used, n]  →  f32 [n_out, used, n]
#pragma once

#include <ggml.h>

#include "device/graph_runner.h"

namespace pith {

struct MulMatFn {
    ggml_tensor * (*of_rows)(ggml_context * ctx, ggml_tensor * weight, ggml_tensor * x);
    ggml_tensor * (*of_experts)(ggml_context * ctx, ggml_tensor * weight, ggml_tensor * x, ggml_tensor * chosen);

    ggml_tensor * operator()(ggml_context * ctx, ggml_tensor * weight, ggml_tensor * x) const {
        return of_rows(ctx, weight, x);
    }
};

// Operations of Pith's own for f32 matrices (matmul/f32_product.h) and, where they pay, for quantised ones
// (matmul/quantised_product.h) and experts (matmul/expert_product.h), in the host's memory as the file has them; ggml's for all
// others. Products of the same x, one behind the other in a graph, round it to 8 bits once.   REQUIRES: the graph runs on the
// CPU.
ggml_tensor * cpu_mul_mat(ggml_context * ctx, ggml_tensor * weight, ggml_tensor * x);
ggml_tensor * cpu_mul_mat_id(ggml_context * ctx, ggml_tensor * weight, ggml_tensor * x, ggml_tensor * chosen);

inline constexpr MulMatFn kGgmlMulMat = {ggml_mul_mat, ggml_mul_mat_id};
inline constexpr MulMatFn kCpuMulMat = {cpu_mul_mat, cpu_mul_mat_id};

// What fits a graph: ggml's where no operations of Pith's own may be in it.
MulMatFn mul_mat_of(const GraphBuild & build);

// Whether kCpuMulMat has a product of its own for quantised matrices of this type and width, or experts: then they are best
// left as the file has them.
bool has_quantised_product(ggml_type type, int64_t n_in);
bool has_expert_product(ggml_type type, int64_t n_in, int64_t n_experts);

}  // namespace pith
