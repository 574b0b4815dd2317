// mul_mat.cpp - a product as ggml's custom operation; it reads all it needs from its tensors.
#include "model/mul_mat.h"

#include <array>

#include "ggml-backend.h"
#include "model/cpu/f32_product.h"

namespace pith {
namespace {

size_t row_floats(const ggml_tensor * matrix) {
    return matrix->nb[1] / sizeof(float);
}

bool is_f32_matrix(const ggml_tensor * x) {
    return x->type == GGML_TYPE_F32 && ggml_is_matrix(x) && x->nb[0] == sizeof(float);
}

bool in_host_memory(const ggml_tensor * weight) {
    const ggml_backend_buffer_t buffer = weight->view_src != nullptr ? weight->view_src->buffer : weight->buffer;
    return buffer != nullptr && ggml_backend_buffer_is_host(buffer);
}

void run(ggml_tensor * out, int ith, int n_threads, void * /*userdata*/) {
    const ggml_tensor * weight = out->src[0];
    const ggml_tensor * x = out->src[1];
    F32Product product;
    product.weights = static_cast<const float *>(weight->data);
    product.x = static_cast<const float *>(x->data);
    product.out = static_cast<float *>(out->data);
    product.weight_stride = row_floats(weight);
    product.x_stride = row_floats(x);
    product.out_stride = row_floats(out);
    product.n_in = static_cast<size_t>(weight->ne[0]);
    product.n_out = static_cast<size_t>(weight->ne[1]);
    product.n = static_cast<size_t>(x->ne[1]);
    multiply_part(product, ith, n_threads);
}

}  // namespace

ggml_tensor * cpu_mul_mat(ggml_context * ctx, ggml_tensor * weight, ggml_tensor * x) {
    if (!is_f32_matrix(weight) || !in_host_memory(weight) || !is_f32_matrix(x)) { return ggml_mul_mat(ctx, weight, x); }
    std::array<ggml_tensor *, 2> sources = {weight, x};
    ggml_tensor * out = ggml_custom_4d(ctx, GGML_TYPE_F32, weight->ne[1], x->ne[1], 1, 1, sources.data(),
                                       static_cast<int>(sources.size()), run, GGML_N_TASKS_MAX, nullptr);
    ggml_set_name(out, name_of(GraphPart::kWeights));
    return out;
}

MulMatFn mul_mat_of(const GraphBuild & build) {
    return build.custom_operations() && f32_product_pays() ? cpu_mul_mat : ggml_mul_mat;
}

}  // namespace pith
