// gate_parameters.cpp - gates as parameters to learn. Stage: train.
#include "train/graph/gate_parameters.h"

namespace pith::train {

size_t n_gate_parameters(const GateConfig & config, const Hparams & hparams) {
    GateWeights places;
    return gate_tensors(config, hparams, places).size();
}

void add_gate_parameters(const GateConfig & config, const Hparams & hparams, ParameterSet & parameters, GateWeights & weights) {
    for (const GateTensor & t : gate_tensors(config, hparams, weights)) {
        *t.slot = parameters.add(t.name, t.ne0, t.ne1, t.ne1 > 0 ? xavier(t.ne0, t.ne1) : constant(0.0F));
    }
}

Result<std::unique_ptr<ParameterSet>> make_gate_parameters(const GateConfig & config, const Hparams & hparams,
                                                           GateWeights & weights) {
    PITH_RETURN_IF_ERROR(check(config, hparams));
    auto parameters = std::make_unique<ParameterSet>();
    PITH_RETURN_IF_ERROR(parameters->begin(n_gate_parameters(config, hparams)));
    add_gate_parameters(config, hparams, *parameters, weights);
    PITH_RETURN_IF_ERROR(parameters->allocate());
    return parameters;
}

}  // namespace pith::train
