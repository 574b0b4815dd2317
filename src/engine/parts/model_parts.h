// model_parts.h - what a loaded model is made of, for Pith's own folders. Stage: engine.
#pragma once

#include <memory>

#include "engine/parts/find_heads.h"
#include "evidence/output_matrices.h"
#include "gate/gate_file.h"
#include "model/model_file.h"
#include "pith/model.h"

namespace pith {

struct ModelParts {
    std::shared_ptr<const ModelFile> file;  // an adapter is part of it
    std::shared_ptr<OutputMatrices> output;
    std::shared_ptr<const Gate> gate;         // null: the model was loaded without gates
    std::unique_ptr<const ModelHeads> heads;  // what comes with Pith for it
};
// As the model lives.
const ModelParts & parts_of(const Model & model);

inline const ModelFile & file_of(const Model & model) {
    return *parts_of(model).file;
}
inline const ModelHeads & heads_of(const Model & model) {
    return *parts_of(model).heads;
}
inline std::shared_ptr<const Gate> gate_of(const Model & model) {
    return parts_of(model).gate;
}

// gate: may be null.
inline KnownGates known_gates(const Gate * gate) {
    if (gate == nullptr) { return KnownGates::kNone; }
    return gate->config().purpose == GatePurpose::kRank ? KnownGates::kRank : KnownGates::kThreshold;
}
inline KnownGates known_gates(const Model & model) {
    return known_gates(parts_of(model).gate.get());
}

}  // namespace pith
