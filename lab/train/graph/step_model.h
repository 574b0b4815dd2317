// step_model.h - what a training step runs: a model's weights, which of them learn, and its gates. Stage: train.
#pragma once

#include <vector>

#include "gate/gate_config.h"
#include "gate/gate_graph.h"
#include "model/arch/hparams.h"
#include "model/weights.h"

namespace pith::train {

class ParameterSet;

// Gates in training: the loss is that of the tokens + alpha · mean over sequences and gated layers of
// ReLU(mean retention probability - beta). Paper: Attention-Gate, equation (1).
// Differs: the mean of a layer is that of each sequence by itself, so that the loss of a batch is the mean of its sequences'
// losses, however it is divided.
struct GateLoss {
    float alpha = 5.0F;
    float beta = 0.4F;
};
struct TrainedGates {
    GateConfig config;
    GateWeights weights;
    GateLoss loss;
};

// Everything must outlive the steps. Weights that are no parameters are frozen and may have any type that can be dequantised.
struct StepModel {
    const Hparams * hparams = nullptr;
    const Weights * weights = nullptr;
    ParameterSet * parameters = nullptr;
    const TrainedGates * gates = nullptr;  // null: none
};

}  // namespace pith::train
