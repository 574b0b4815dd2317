// mul_mat.cpp - products as ggml's custom operations; they read all they need from their tensors.
#include "model/mul_mat.h"

#include <array>
#include <optional>
#include <span>

#include "device/device_work.h"
#include "ggml-backend.h"
#include "matmul/expert_product.h"
#include "matmul/f32_product.h"
#include "matmul/quantised_product.h"

namespace pith {
namespace {

size_t row_floats(const ggml_tensor * matrix) {
    return matrix->nb[1] / sizeof(float);
}

bool is_f32_matrix(const ggml_tensor * x) {
    return x->type == GGML_TYPE_F32 && ggml_is_matrix(x) && x->nb[0] == sizeof(float);
}

bool in_host_memory(const ggml_tensor * weight) {
    const ggml_backend_buffer_t buffer = buffer_of(weight);
    return buffer != nullptr && ggml_backend_buffer_is_host(buffer);
}

void multiply_f32(ggml_tensor * out, int ith, int n_threads, void * /*userdata*/) {
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

std::optional<QuantType> quant_type_of(ggml_type type) {
    switch (type) {
        case GGML_TYPE_Q4_K:
            return QuantType::kQ4_K;
        case GGML_TYPE_Q5_K:
            return QuantType::kQ5_K;
        case GGML_TYPE_Q6_K:
            return QuantType::kQ6_K;
        case GGML_TYPE_IQ4_XS:
            return QuantType::kIQ4_XS;
        case GGML_TYPE_Q8_0:
            return QuantType::kQ8_0;
        case GGML_TYPE_Q4_0:
            return QuantType::kQ4_0;
        case GGML_TYPE_Q4_1:
            return QuantType::kQ4_1;
        case GGML_TYPE_IQ4_NL:
            return QuantType::kIQ4_NL;
        case GGML_TYPE_MXFP4:
            return QuantType::kMXFP4;
        default:
            return std::nullopt;
    }
}

// Rounded rows come in two kinds, which the tensor's type tells apart.
constexpr ggml_type kOfBlocks = GGML_TYPE_I8;
constexpr ggml_type kOfGroups = GGML_TYPE_I32;

void quantise(ggml_tensor * out, int ith, int n_threads, void * /*userdata*/) {
    const ggml_tensor * x = out->src[0];
    RowsToQuantise rows;
    rows.x = static_cast<const float *>(x->data);
    rows.stride = row_floats(x);
    rows.n = static_cast<size_t>(x->ne[1]);
    rows.n_in = static_cast<size_t>(x->ne[0]);
    rows.block_stride = padded_rows(rows.n);
    if (out->type == kOfBlocks) {
        rows.blocks = static_cast<QuantisedBlock *>(out->data);
    } else {
        rows.groups = static_cast<QuantisedGroups *>(out->data);
    }
    quantise_part(rows, ith, n_threads);
}

void multiply_quantised(ggml_tensor * out, int ith, int n_threads, void * /*userdata*/) {
    const ggml_tensor * weight = out->src[0];
    QuantisedProduct product;
    product.type = *quant_type_of(weight->type);
    product.weights = static_cast<const uint8_t *>(weight->data);
    product.weight_stride = weight->nb[1];
    const ggml_tensor * rows = out->src[1];
    if (rows->type == kOfBlocks) {
        product.x = static_cast<const QuantisedBlock *>(rows->data);
    } else {
        product.groups = static_cast<const QuantisedGroups *>(rows->data);
    }
    product.out = static_cast<float *>(out->data);
    product.out_stride = row_floats(out);
    product.n_in = static_cast<size_t>(weight->ne[0]);
    product.n_out = static_cast<size_t>(weight->ne[1]);
    product.n = static_cast<size_t>(out->ne[1]);
    product.block_stride = padded_rows(product.n);
    multiply_part(product, ith, n_threads);
}

ggml_tensor * own_operation(ggml_context * ctx, ggml_type type, std::array<int64_t, 3> ne, std::span<ggml_tensor *> sources,
                            ggml_custom_op_t run) {
    ggml_tensor * out = ggml_custom_4d(ctx, type, ne[0], ne[1], ne[2], 1, sources.data(), static_cast<int>(sources.size()), run,
                                       GGML_N_TASKS_MAX, nullptr);
    ggml_set_name(out, name_of(GraphPart::kWeights));
    return out;
}

ChosenExperts chosen_experts(const ggml_tensor * chosen, const ggml_tensor * weight) {
    ChosenExperts of;
    of.chosen = static_cast<const int32_t *>(chosen->data);
    of.stride = chosen->nb[1] / sizeof(int32_t);
    of.n_tokens = static_cast<size_t>(chosen->ne[1]);
    of.n_used = static_cast<size_t>(chosen->ne[0]);
    of.n_experts = static_cast<size_t>(weight->ne[2]);
    return of;
}

void quantise_for_experts(ggml_tensor * out, int ith, int n_threads, void * /*userdata*/) {
    const ggml_tensor * x = out->src[0];
    ExpertRowsToQuantise rows;
    rows.of = chosen_experts(out->src[1], out->src[2]);
    rows.x = static_cast<const float *>(x->data);
    rows.token_stride = x->nb[2] / sizeof(float);
    rows.used_stride = row_floats(x);
    rows.one_for_all = x->ne[1] == 1;
    rows.n_in = static_cast<size_t>(x->ne[0]);
    rows.in_groups = out->type == kOfGroups;
    rows.rows = out->data;
    quantise_experts_part(rows, ith, n_threads);
}

void multiply_experts(ggml_tensor * out, int ith, int n_threads, void * /*userdata*/) {
    const ggml_tensor * weight = out->src[0];
    ExpertProduct product;
    product.of = chosen_experts(out->src[2], weight);
    product.type = *quant_type_of(weight->type);
    product.weights = static_cast<const uint8_t *>(weight->data);
    product.weight_stride = weight->nb[1];
    product.expert_stride = weight->nb[2];
    product.rows = out->src[1]->data;
    product.out = static_cast<float *>(out->data);
    product.out_stride = row_floats(out);
    product.n_in = static_cast<size_t>(weight->ne[0]);
    product.n_out = static_cast<size_t>(weight->ne[1]);
    multiply_experts_part(product, ith, n_threads);
}

bool lies_in(const ggml_context * ctx, const void * p) {
    const auto * begin = static_cast<const uint8_t *>(ggml_get_mem_buffer(ctx));
    return p >= begin && p < begin + ggml_get_mem_size(ctx);
}

// x in 8 bits for weights of a type, laid together by expert where experts are chosen. What an earlier product of this graph
// made of it is taken again: it is noted at x, what is made of x in another way at the first, and so on. A tensor of another
// context may outlive this one: nothing is noted there.
ggml_tensor * quantised_rows(ggml_context * ctx, ggml_tensor * x, ggml_tensor * weight, ggml_tensor * chosen) {
    const ggml_type kind = has_groups(*quant_type_of(weight->type)) ? kOfGroups : kOfBlocks;
    ggml_tensor * noted_at = x;
    if (lies_in(ctx, x)) {
        for (; noted_at->extra != nullptr; noted_at = static_cast<ggml_tensor *>(noted_at->extra)) {
            auto * known = static_cast<ggml_tensor *>(noted_at->extra);
            const bool is_for_as_many = chosen == nullptr || known->src[1] != chosen || known->src[2]->ne[2] == weight->ne[2];
            if (known->type == kind && known->src[1] == chosen && is_for_as_many) { return known; }
        }
    }
    const size_t bytes = chosen == nullptr ? quantised_bytes(static_cast<size_t>(x->ne[0]), static_cast<size_t>(x->ne[1]))
                                           : ExpertRows::bytes(chosen_experts(chosen, weight), static_cast<size_t>(x->ne[0]));
    const auto n = static_cast<int64_t>(bytes / ggml_type_size(kind));
    std::array<ggml_tensor *, 3> sources = {x, chosen, weight};
    ggml_tensor * rows = own_operation(ctx, kind, {n, 1, 1}, std::span(sources).first(chosen == nullptr ? 1 : 3),
                                       chosen == nullptr ? quantise : quantise_for_experts);
    if (lies_in(ctx, x)) { noted_at->extra = rows; }
    return rows;
}

bool rows_are_whole(const ggml_tensor * weight) {
    return weight->nb[0] == ggml_type_size(weight->type);
}

}  // namespace

ggml_tensor * cpu_mul_mat(ggml_context * ctx, ggml_tensor * weight, ggml_tensor * x) {
    const bool fits = ggml_is_matrix(weight) && rows_are_whole(weight) && is_f32_matrix(x) && weight->ne[0] == x->ne[0];
    if (!fits || !in_host_memory(weight)) {
        return ggml_mul_mat(ctx, weight, x);  // which ends the program where the shapes do not fit
    }
    if (has_quantised_product(weight->type, weight->ne[0])) {
        std::array<ggml_tensor *, 2> sources = {weight, quantised_rows(ctx, x, weight, nullptr)};
        return own_operation(ctx, GGML_TYPE_F32, {weight->ne[1], x->ne[1], 1}, sources, multiply_quantised);
    }
    if (!is_f32_matrix(weight) || !f32_product_pays()) { return ggml_mul_mat(ctx, weight, x); }
    std::array<ggml_tensor *, 2> sources = {weight, x};
    return own_operation(ctx, GGML_TYPE_F32, {weight->ne[1], x->ne[1], 1}, sources, multiply_f32);
}

ggml_tensor * cpu_mul_mat_id(ggml_context * ctx, ggml_tensor * weight, ggml_tensor * x, ggml_tensor * chosen) {
    const bool x_fits = x->type == GGML_TYPE_F32 && x->nb[0] == sizeof(float) && x->ne[0] == weight->ne[0] && x->ne[3] == 1 &&
                        x->ne[2] == chosen->ne[1] && (x->ne[1] == 1 || x->ne[1] == chosen->ne[0]);
    const bool chosen_fits = chosen->type == GGML_TYPE_I32 && ggml_is_matrix(chosen) && chosen->nb[0] == sizeof(int32_t);
    if (!x_fits || !chosen_fits || weight->ne[3] != 1 || !rows_are_whole(weight) || !in_host_memory(weight) ||
        !has_expert_product(weight->type, weight->ne[0], weight->ne[2])) {
        return ggml_mul_mat_id(ctx, weight, x, chosen);
    }
    std::array<ggml_tensor *, 3> sources = {weight, quantised_rows(ctx, x, weight, chosen), chosen};
    return own_operation(ctx, GGML_TYPE_F32, {weight->ne[1], chosen->ne[0], chosen->ne[1]}, sources, multiply_experts);
}

MulMatFn mul_mat_of(const GraphBuild & build) {
    return build.custom_operations() ? kCpuMulMat : kGgmlMulMat;
}

bool has_quantised_product(ggml_type type, int64_t n_in) {
    const std::optional<QuantType> known = quant_type_of(type);
    return known && quantised_product_pays(*known) && n_in % ggml_blck_size(type) == 0;
}

bool has_expert_product(ggml_type type, int64_t n_in, int64_t n_experts) {
    const std::optional<QuantType> known = quant_type_of(type);
    return known && quantised_product_pays(*known, true) && n_in % ggml_blck_size(type) == 0 &&
           n_experts <= static_cast<int64_t>(kMostExperts);
}

}  // namespace pith
