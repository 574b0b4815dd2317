// gate_step.h - a gate's threshold in training: flags forward, the straight-through gradient back, the eviction loss. Stage:
// train. Pure C++: no ggml, no I/O.
//
//   p = sigmoid(logit + gamma);   flag = p > tau ? 1 : 0
//   eviction loss of a batch = scale · sum over sequences and gated layers of ReLU(mean over its tokens and heads of p - beta)
// Back: d flag / d logit is taken to be p · (1 - p), that of the probability (the straight-through estimator).
// Only the first n_gated tokens of a sequence are gated; later ones (padding, an answer that decode adds) have flag 1 and no
// gradient.
// Threads: one graph at a time.
#pragma once

#include <cstdint>
#include <vector>

#include "gate/gate_config.h"

namespace pith::train {

struct GateStep {
    GateConfig config;
    float beta = 0.4F;
    float scale = 0.0F;  // alpha / (gated layers · sequences of all accumulated batches)
    int n_kv_heads = 0;
    int n_tokens = 0;          // T
    std::vector<int> n_gated;  // [B], 0 … T

    // Out, of the last run.
    struct Layer {
        std::vector<double> mean;  // [B] of p
        double kept = 0;           // flags that are 1, over all gated tokens and heads
    };
    std::vector<Layer> layers;

    void threshold(int layer, const float * logits, float * flags);                       // [K, T·B] both
    void back(int layer, const float * logits, const float * d_flags, float * d_logits);  // after threshold

    double n_flags() const;        // gated tokens · K: of one layer
    double eviction_loss() const;  // of the last run, without scale
};

}  // namespace pith::train
