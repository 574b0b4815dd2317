// rotation_only.h - a model that is nothing but its rotation, in every form that there is, and the same by formula in f64.
#pragma once

#include <ggml-alloc.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>
#include <vector>

#include "attention/random_lanes.h"
#include "model/bare_model.h"

namespace pith::testing {

// A model that is nothing but its rotation.
class RotationOnly : public BareModel {
public:
    explicit RotationOnly(Hparams hparams, std::vector<float> factors = {}, const std::vector<float> & query_norm = {})
        : factors_(std::move(factors)) {
        hparams_ = std::move(hparams);
        hparams_.n_layers = 1;
        hparams_.layers.resize(1);
        weights_.layers.resize(1);
        context_ = ggml_init({2 * ggml_tensor_overhead(), nullptr, true});
        const auto add = [&](const std::vector<float> & values, ggml_tensor *& slot) {
            if (!values.empty()) { slot = ggml_new_tensor_1d(context_, GGML_TYPE_F32, static_cast<int64_t>(values.size())); }
        };
        add(factors_, weights_.layers[0].rope_freqs);
        add(query_norm, weights_.layers[0].q_norm);
        if (factors_.empty() && query_norm.empty()) { return; }
        buffer_ = ggml_backend_alloc_ctx_tensors_from_buft(context_, ggml_backend_dev_buffer_type(cpu_device()));
        const auto set = [](const std::vector<float> & values, ggml_tensor * tensor) {
            if (tensor != nullptr) { ggml_backend_tensor_set(tensor, values.data(), 0, ggml_nbytes(tensor)); }
        };
        set(factors_, weights_.layers[0].rope_freqs);
        set(query_norm, weights_.layers[0].q_norm);
    }
    ~RotationOnly() override {
        if (buffer_ != nullptr) { ggml_backend_buffer_free(buffer_); }
        ggml_free(context_);
    }
    RotationOnly(const RotationOnly &) = delete;
    RotationOnly & operator=(const RotationOnly &) = delete;

    // x rotated to a position, f64, by the formulas of RoPE and YaRN.
    Vector rotate(const Vector & x, int64_t position) const {
        const Hparams & hp = hparams_;
        const int half = hp.n_rot / 2;
        const bool is_half_split = hp.form.rope == RopeKind::kHalves;
        const auto correction = [&](double rotations) {
            return hp.n_rot * std::log(hp.rope_n_ctx_orig / (rotations * 2 * std::numbers::pi)) /
                   (2 * std::log(static_cast<double>(hp.rope_base)));
        };
        Vector out = x;
        for (int i = 0; i < half && hp.layers[0].rotates; ++i) {
            const double factor = factors_.empty() ? 1.0 : static_cast<double>(factors_[static_cast<size_t>(i)]);
            const double extrapolated =
                static_cast<double>(position) * std::pow(static_cast<double>(hp.rope_base), -2.0 * i / hp.n_rot) / factor;
            double angle = static_cast<double>(hp.rope_freq_scale) * extrapolated;
            double magnitude = static_cast<double>(hp.yarn_attn_factor);
            if (hp.yarn_ext_factor != 0.0F) {
                const double low = std::max(0.0, std::floor(correction(static_cast<double>(hp.yarn_beta_fast))));
                const double high = std::min(hp.n_rot - 1.0, std::ceil(correction(static_cast<double>(hp.yarn_beta_slow))));
                const double ramp = 1.0 - std::clamp((i - low) / std::max(0.001, high - low), 0.0, 1.0);
                angle = angle * (1.0 - ramp) + extrapolated * ramp;
                magnitude *= 1.0 + 0.1 * std::log(1.0 / static_cast<double>(hp.rope_freq_scale));
            }
            const auto a = static_cast<size_t>(is_half_split ? i : 2 * i);
            const auto b = static_cast<size_t>(is_half_split ? i + half : 2 * i + 1);
            out[a] = magnitude * (x[a] * std::cos(angle) - x[b] * std::sin(angle));
            out[b] = magnitude * (x[a] * std::sin(angle) + x[b] * std::cos(angle));
        }
        if (hp.query_temperature != 0.0F) {
            const double heat = 1.0 + double{hp.query_temperature} *
                                          std::log(1.0 + static_cast<double>(position / hp.query_temperature_length));
            for (double & value : out) { value *= heat; }
        }
        return out;
    }

private:
    std::vector<float> factors_;
    ggml_context * context_ = nullptr;
    ggml_backend_buffer_t buffer_ = nullptr;
};

struct RotationCase {
    const char * name;
    Hparams hparams;
    std::vector<float> factors;
    std::vector<float> query_norm = {};
};

inline std::vector<RotationCase> rotation_cases() {
    std::vector<RotationCase> cases;
    Hparams plain;
    plain.head_dim = 32;
    plain.n_rot = 32;
    plain.rope_base = 10000.0F;
    cases.push_back({"interleaved", plain, {}});
    Hparams half = plain;
    half.form.rope = RopeKind::kHalves;
    half.rope_base = 500000.0F;
    cases.push_back({"half-split", half, {}});
    std::vector<float> factors(16);
    for (size_t i = 0; i < factors.size(); ++i) { factors[i] = i < 8 ? 1.0F : 8.0F; }
    cases.push_back({"frequency factors", half, factors});
    Hparams partial = half;
    partial.n_rot = 16;
    cases.push_back({"half of the head", partial, {}});
    Hparams yarn = half;
    yarn.rope_scaling = RopeScaling::kYarn;
    yarn.rope_freq_scale = 0.25F;
    yarn.yarn_ext_factor = 1.0F;
    yarn.rope_n_ctx_orig = 128;
    cases.push_back({"YaRN", yarn, {}});
    Hparams still = plain;
    still.layers.push_back({.rotates = false});
    cases.push_back({"no rotation", still, {}});
    Hparams hot = half;
    hot.query_temperature = 0.3F;
    hot.query_temperature_length = 48;  // the queries to come cross the border
    cases.push_back({"temperature", hot, {}});
    Hparams normed = half;
    normed.form.qk_norm = QkNorm::kPerHeadRotated;
    std::vector<float> weight(32);
    for (size_t i = 0; i < weight.size(); ++i) { weight[i] = 0.5F + 0.05F * static_cast<float>(i); }
    cases.push_back({"norm behind the rotation", normed, {}, weight});
    return cases;
}

}  // namespace pith::testing
