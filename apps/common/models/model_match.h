// model_match.h - which of the models found a name means.
// Pure C++: no I/O.
#pragma once

#include <span>
#include <string>

#include "common/models/models_found.h"
#include "pith/status.h"

namespace pith::app {

struct ModelMatch {
    const FoundModel * model = nullptr;
    bool by_part = false;  // the name is only a part of the model's
};

// The model of exactly this name; else the only one that has it as name or alias, case ignored; else the only one whose name
// holds it.
// Errors: kNotFound; kInvalidArgument: several, which it names.
Result<ModelMatch> match_model(const std::string & name, std::span<const FoundModel> models);

}  // namespace pith::app
