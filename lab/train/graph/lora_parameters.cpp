// lora_parameters.cpp - low-rank additions as parameters to learn. Stage: train.
#include "train/graph/lora_parameters.h"

#include <ggml.h>

#include <cmath>
#include <string>

#include "model/lora_file.h"

namespace pith::train {

Status check(const LoraOptions & options, const Hparams & hparams) {
    if (options.rank < 1 || options.rank > hparams.n_embd) {
        return {ErrorCode::kInvalidArgument, "the rank is " + std::to_string(options.rank) + ": give 1 to " +
                                                 std::to_string(hparams.n_embd) + ", the model's width"};
    }
    if (!(options.alpha > 0.0F) || !std::isfinite(options.alpha)) {
        return {ErrorCode::kInvalidArgument,
                "the adapter's alpha is " + std::to_string(options.alpha) + ": give a positive number"};
    }
    return {};
}

void add_lora_parameters(const LoraOptions & options, ParameterSet & parameters, Weights & weights) {
    for (size_t l = 0; l < weights.layers.size(); ++l) {
        for (const LoraTarget & target : lora_targets()) {
            LayerWeights & layer = weights.layers[l];
            const ggml_tensor * weight = layer.*target.weight;
            if (weight == nullptr) { continue; }  // no attention in this layer: check_trainable() says so
            const std::string name = "blk." + std::to_string(l) + "." + target.name + ".weight";
            LoraPair & pair = layer.*target.pair;
            const float deviation = 1.0F / std::sqrt(static_cast<float>(weight->ne[0]));
            pair.a = parameters.add(name + ".lora_a", weight->ne[0], options.rank, normal(deviation));
            pair.b = parameters.add(name + ".lora_b", options.rank, weight->ne[1], constant(0.0F));
            pair.scale = options.alpha / static_cast<float>(options.rank);
        }
    }
}

}  // namespace pith::train
