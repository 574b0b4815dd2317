// random_lora.h - a LoRA adapter with random weights for a model, as a file.
#pragma once

#include <ggml.h>

#include <cmath>
#include <memory>
#include <string>

#include "model/lora_file.h"
#include "model/model_file.h"
#include "tasks/random.h"

namespace pith::testing {

// Pairs of all four matrices in every layer, large enough to change what the model says. alpha = 2 · rank.
inline Status write_random_lora(const ModelFile & model, const std::string & path, int rank = 3, uint64_t seed = 5) {
    const std::unique_ptr<ggml_context, decltype(&ggml_free)> ctx(ggml_init({size_t{1} << 24, nullptr, false}), &ggml_free);
    corpus::Random random(seed);
    const auto matrix = [&](int64_t ne0, int64_t ne1) {
        ggml_tensor * t = ggml_new_tensor_2d(ctx.get(), GGML_TYPE_F32, ne0, ne1);
        const double size = 1.0 / std::sqrt(static_cast<double>(ne0));
        for (int64_t i = 0; i < ggml_nelements(t); ++i) {
            static_cast<float *>(t->data)[i] = static_cast<float>(size * (2 * random.uniform() - 1));
        }
        return t;
    };
    Weights weights = model.weights();
    for (LayerWeights & layer : weights.layers) {
        for (const LoraTarget & target : lora_targets()) {
            const ggml_tensor * weight = layer.*target.weight;
            if (weight == nullptr) { continue; }  // a layer without attention
            layer.*target.pair = {matrix(weight->ne[0], rank), matrix(rank, weight->ne[1]), 2.0F};
        }
    }
    return save_lora(path, weights, model);
}

}  // namespace pith::testing
