// model_parts.h - what a loaded model is made of, for Pith's own folders. Stage: engine.
#pragma once

#include <memory>

#include "engine/find_heads.h"
#include "gate/gate_file.h"
#include "model/model_file.h"
#include "pith/model.h"

namespace pith {

// As the model lives; an adapter is part of it.
const ModelFile & file_of(const Model & model);
// What comes with Pith for it.
const ModelHeads & heads_of(const Model & model);
// Null: the model was loaded without gates.
std::shared_ptr<const Gate> gate_of(const Model & model);
KnownGates known_gates(const Gate * gate);
KnownGates known_gates(const Model & model);

}  // namespace pith
