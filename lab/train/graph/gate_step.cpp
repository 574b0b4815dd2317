// gate_step.cpp - a gate's threshold in training. Stage: train.
#include "train/graph/gate_step.h"

#include <algorithm>

namespace pith::train {

void GateStep::threshold(int layer, const float * logits, float * flags) {
    Layer & out = layers[static_cast<size_t>(layer)];
    out.kept = 0;
    out.mean.assign(n_gated.size(), 0.0);
    for (size_t b = 0; b < n_gated.size(); ++b) {
        const int64_t begin = static_cast<int64_t>(b) * n_tokens * n_kv_heads;
        const int64_t gated = int64_t{n_gated[b]} * n_kv_heads;
        double sum = 0;
        for (int64_t i = begin; i < begin + gated; ++i) {
            const float p = gate_probability(logits[i], config);
            flags[i] = p > config.tau ? 1.0F : 0.0F;
            sum += p;
            out.kept += flags[i];
        }
        std::fill(flags + begin + gated, flags + begin + int64_t{n_tokens} * n_kv_heads, 1.0F);
        out.mean[b] = gated > 0 ? sum / static_cast<double>(gated) : 0.0;
    }
}

void GateStep::back(int layer, const float * logits, const float * d_flags, float * d_logits) {
    const Layer & of = layers[static_cast<size_t>(layer)];
    for (size_t b = 0; b < n_gated.size(); ++b) {
        const int64_t begin = static_cast<int64_t>(b) * n_tokens * n_kv_heads;
        const int64_t gated = int64_t{n_gated[b]} * n_kv_heads;
        const float pressure = of.mean[b] > beta ? scale / static_cast<float>(gated) : 0.0F;
        for (int64_t i = begin; i < begin + gated; ++i) {
            const float p = gate_probability(logits[i], config);
            d_logits[i] = p * (1.0F - p) * (d_flags[i] + pressure);
        }
        std::fill(d_logits + begin + gated, d_logits + begin + int64_t{n_tokens} * n_kv_heads, 0.0F);
    }
}

double GateStep::n_flags() const {
    double n = 0;
    for (const int gated : n_gated) { n += gated; }
    return n * n_kv_heads;
}

double GateStep::eviction_loss() const {
    double sum = 0;
    for (const Layer & layer : layers) {
        for (const double mean : layer.mean) { sum += mean > beta || mean != mean ? mean - beta : 0.0; }  // a NaN shows
    }
    return sum;
}

}  // namespace pith::train
