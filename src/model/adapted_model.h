// adapted_model.h - a model with a LoRA adapter on it, as a model file: whatever reads weights reads the adapted ones. Stage:
// model.
//
// The pairs stay pairs: each product with W_q, W_k, W_v or W_O is followed by the two thin ones (layer_graph.h), as llama.cpp
// does it, so quantised and repacked weights stay as they are. read_output_projection() gives W_O + scale · b·a, and with it
// everything that is made of the output projection (output_factors.h, evidence/output_norms.h).
// Paper: LoRA (Hu et al., 2021).
#pragma once

#include <memory>

#include "model/lora_file.h"
#include "model/model_file.h"

namespace pith {

// Refers to both, and keeps them alive. strength: what the adapter's own scale is multiplied by; 0: as without one, to the bit.
// REQUIRES: the adapter was loaded for `model`; strength is finite.
std::shared_ptr<const ModelFile> adapt_model(std::shared_ptr<const ModelFile> model, std::shared_ptr<const LoraAdapter> adapter,
                                             float strength);

}  // namespace pith
