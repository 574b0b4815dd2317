// gate_parameters.h - gates as parameters to learn. Stage: train.
#pragma once

#include <memory>

#include "gate/gate_config.h"
#include "gate/gate_graph.h"
#include "model/arch/hparams.h"
#include "pith/status.h"
#include "train/graph/parameter_set.h"

namespace pith::train {

// Adds the gates' tensors, n_gate_parameters() of them, to `parameters` and to `weights`. REQUIRES: check(config, hparams).
size_t n_gate_parameters(const GateConfig & config, const Hparams & hparams);
void add_gate_parameters(const GateConfig & config, const Hparams & hparams, ParameterSet & parameters, GateWeights & weights);

// Gates alone.
// Matrices by Xavier's rule, biases 0: at first a logit is near 0 and the retention probability near sigmoid(gamma).
// Fills `weights`. Errors: as check(config, hparams); kOutOfMemory.
Result<std::unique_ptr<ParameterSet>> make_gate_parameters(const GateConfig & config, const Hparams & hparams,
                                                           GateWeights & weights);

}  // namespace pith::train
