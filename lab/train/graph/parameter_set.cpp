// parameter_set.cpp - tensors with their gradients and AdamW's moments. Stage: train.
#include "train/graph/parameter_set.h"

#include <ggml-alloc.h>
#include <ggml-backend.h>
#include <ggml.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "device/backend.h"
#include "tasks/random.h"

namespace pith::train {
namespace {

void fill(ggml_tensor * t, float value) {
    std::fill(values(t), values(t) + ggml_nelements(t), value);
}

}  // namespace

float * values(ggml_tensor * tensor) {
    return static_cast<float *>(tensor->data);
}
const float * values(const ggml_tensor * tensor) {
    return static_cast<const float *>(tensor->data);
}

Initial xavier(int64_t fan_in, int64_t fan_out) {
    return {Initial::Kind::kUniform, std::sqrt(6.0F / static_cast<float>(fan_in + fan_out))};
}

Status ParameterSet::begin(size_t n_parameters) {
    ctx_ = ggml_init({4 * n_parameters * ggml_tensor_overhead(), nullptr, true});
    if (ctx_ == nullptr) { return {ErrorCode::kOutOfMemory, "no memory for the parameters' descriptions"}; }
    return {};
}

ggml_tensor * ParameterSet::add(const std::string & name, int64_t ne0, int64_t ne1, Initial initial) {
    Parameter p;
    p.name = name;
    p.initial = initial;
    p.decays = ne1 > 0;
    for (ggml_tensor ** t : {&p.value, &p.gradient, &p.m, &p.v}) {
        *t = ne1 > 0 ? ggml_new_tensor_2d(ctx_, GGML_TYPE_F32, ne0, ne1) : ggml_new_tensor_1d(ctx_, GGML_TYPE_F32, ne0);
    }
    ggml_set_name(p.value, name.c_str());
    ggml_set_param(p.value);
    list_.push_back(p);
    return p.value;
}

Status ParameterSet::allocate() {
    PITH_RETURN_IF_ERROR(load_backends());
    buffer_ = ggml_backend_alloc_ctx_tensors_from_buft(ctx_, ggml_backend_dev_buffer_type(cpu_device()));
    if (buffer_ == nullptr) { return {ErrorCode::kOutOfMemory, "no memory for the parameters"}; }
    initialise(1);
    return {};
}

ParameterSet::~ParameterSet() {
    if (buffer_ != nullptr) { ggml_backend_buffer_free(buffer_); }
    if (ctx_ != nullptr) { ggml_free(ctx_); }
}

void ParameterSet::initialise(uint64_t seed) {
    uint64_t index = 0;
    for (Parameter & p : list_) {
        corpus::Random random(corpus::SeedSpace::kTraining, seed, index++);
        for (ggml_tensor * t : {p.gradient, p.m, p.v}) { fill(t, 0.0F); }
        if (p.initial.kind == Initial::Kind::kConstant) {
            fill(p.value, p.initial.size);
            continue;
        }
        float * out = values(p.value);
        for (int64_t i = 0; i < ggml_nelements(p.value); ++i) {
            if (p.initial.kind == Initial::Kind::kUniform) {
                out[i] = static_cast<float>(2.0 * random.uniform() - 1.0) * p.initial.size;
                continue;
            }
            // Box and Muller: a normal number from two uniform ones
            const double radius = std::sqrt(-2.0 * std::log(1.0 - random.uniform()));
            out[i] = static_cast<float>(radius * std::cos(2.0 * std::numbers::pi * random.uniform())) * p.initial.size;
        }
    }
}

void ParameterSet::zero_gradients() {
    for (Parameter & p : list_) { fill(p.gradient, 0.0F); }
}

int64_t ParameterSet::n_params() const {
    int64_t n = 0;
    for (const Parameter & p : list_) { n += ggml_nelements(p.value); }
    return n;
}

size_t ParameterSet::size_bytes() const {
    return buffer_ == nullptr ? 0 : ggml_backend_buffer_get_size(buffer_);
}

}  // namespace pith::train
