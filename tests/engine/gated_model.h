// gated_model.h - tiny models with gates of random weights, whose retention probabilities lie around the threshold.
#pragma once

#include <gtest/gtest.h>

#include "engine/parts/model_parts.h"
#include "engine/tiny_model.h"
#include "gate/gate_file.h"
#include "gate/random_gate.h"

namespace pith::testing {

// gamma 0 and tau 0.5: about half is kept.
inline GateConfig even_gate() {
    GateConfig config;
    config.n_heads = 2;
    config.head_dim = 16;
    config.gamma = 0.0F;
    return config;
}

struct GatedFiles {
    std::string model;
    std::string gate;
};

inline Result<GatedFiles> gated_files(const RandomModelSpec & spec, const GateConfig & config) {
    static int n_files = 0;
    const std::string gate_path = scratch_file("gated-" + std::to_string(n_files++) + ".gate.gguf");
    PITH_ASSIGN_OR_RETURN(const std::string path, tiny_file(spec));
    PITH_ASSIGN_OR_RETURN(const Model plain, Model::load(path));
    const RandomGate gate(config, file_of(plain).hparams());
    PITH_RETURN_IF_ERROR(save_gate(gate_path, config, gate.weights, {}, file_of(plain)));
    return GatedFiles{path, gate_path};
}

inline Result<Model> gated_model(const RandomModelSpec & spec, const GateConfig & config) {
    PITH_ASSIGN_OR_RETURN(const GatedFiles files, gated_files(spec, config));
    ModelOptions options;
    options.gate_file = files.gate;
    return Model::load(files.model, options);
}

}  // namespace pith::testing
