// export.h - a trained model as a GGUF that libllama and Pith load. Stage: train.
#pragma once

#include <string>

#include "pith/status.h"
#include "train/data/vocabulary.h"
#include "train/graph/parameters.h"

namespace pith::train {

// Architecture llama, weights f32, tokeniser included. Appears whole or not at all (file/new_file.h).
// Errors: kIo (names the path), kInvalidArgument (vocabulary and model differ in size).
Status export_gguf(const Parameters & parameters, const Vocabulary & vocabulary, const std::string & name,
                   const std::string & path);

}  // namespace pith::train
