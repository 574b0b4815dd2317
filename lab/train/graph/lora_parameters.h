// lora_parameters.h - low-rank additions to q, k, v and o as parameters to learn. Stage: train.
// Paper: LoRA (Hu et al., 2021): a is normal, b is 0, so that the model begins as it is; the addition is alpha / rank · b·a.
#pragma once

#include "model/arch/hparams.h"
#include "model/weights.h"
#include "pith/status.h"
#include "train/graph/parameter_set.h"

namespace pith::train {

struct LoraOptions {
    int rank = 0;  // 0: none
    float alpha = 16.0F;
};
// Errors: kInvalidArgument (names the value).
Status check(const LoraOptions & options, const Hparams & hparams);

// Adds the pairs of every layer to `parameters` (4 · 2 · n_layers of them) and to `weights`. REQUIRES: check(options).
void add_lora_parameters(const LoraOptions & options, ParameterSet & parameters, Weights & weights);

}  // namespace pith::train
