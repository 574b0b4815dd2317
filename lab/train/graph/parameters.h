// parameters.h - the weights of a model in training, from its shape. Stage: train.
// Threads: one at a time.
#pragma once

#include <memory>

#include "model/arch/hparams.h"
#include "model/weights.h"
#include "pith/status.h"
#include "train/graph/parameter_set.h"
#include "train/graph/step_model.h"

namespace pith::train {

struct ModelShape {
    int n_vocab = 0;
    int n_layers = 4;
    int n_embd = 128;
    int n_heads = 4;
    int n_kv_heads = 2;
    int head_dim = 32;
    int n_ff = 256;
    int n_ctx = 4096;  // stated in the GGUF
    float rope_base = 10000.0F;
    bool tied = false;  // the output matrix is the embedding

    Status check() const;
    Hparams hparams() const;
};

class Parameters : public ParameterSet {
public:
    // Errors: kInvalidArgument (shape), kOutOfMemory.
    static Result<std::unique_ptr<Parameters>> make(const ModelShape & shape);

    const ModelShape & shape() const { return shape_; }
    const Hparams & hparams() const { return hparams_; }
    const Weights & weights() const { return weights_; }
    StepModel step_model() { return {&hparams_, &weights_, this}; }

private:
    Parameters() = default;

    ModelShape shape_;
    Hparams hparams_;
    Weights weights_;
};

}  // namespace pith::train
