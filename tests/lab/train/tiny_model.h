// tiny_model.h - a small shape and a random batch for the trainer's tests.
#pragma once

#include "tasks/random.h"
#include "train/graph/step_graph.h"
#include "train/trainer.h"

namespace pith::train {

inline ModelShape tiny_shape(bool tied = false, int n_kv_heads = 2) {
    ModelShape s;
    s.n_vocab = 40;
    s.n_layers = 2;
    s.n_embd = 24;
    s.n_heads = 4;
    s.n_kv_heads = n_kv_heads;
    s.head_dim = 8;
    s.n_ff = 20;
    s.n_ctx = 128;
    s.tied = tied;
    return s;
}

// Every third weight is 0, the others differ.
inline Batch random_batch(const BatchShape & shape, int n_vocab, uint64_t seed) {
    corpus::Random random(seed);
    Batch b;
    b.shape = shape;
    for (int i = 0; i < shape.size(); ++i) {
        b.tokens.push_back(random.below(n_vocab));
        b.targets.push_back(random.below(n_vocab));
        b.weights.push_back(static_cast<float>(i % 3) * 0.4F);
    }
    return b;
}

}  // namespace pith::train
