// import_importance.h - predictors of importance that others have published, as KVzap's for some models (safetensors).
// Stage: probe.
//
// A layout: layers.N.weight, layers.N.bias (linear), or layers.N.0.weight, .0.bias, .2.weight, .2.bias (an MLP with GELU), of
// every layer; f32, f16 or bf16. They give the logarithm of an entry's score from the layer's normalised attention input.
// Paper: KVzap: Fast, Adaptive, and Faithful KV Cache Pruning.
#pragma once

#include <string>

#include "engine/probe/calibrate_importance.h"
#include "pith/model.h"

namespace pith {

// Errors: kNotFound, kBadFile (no safetensors, damaged; a layer is missing: names the tensor), kInvalidArgument (made for
// another model: names what differs), kUnsupported (another layout).
Result<ImportancePredictor> import_importance(const std::string & path, const Model & model);

}  // namespace pith
