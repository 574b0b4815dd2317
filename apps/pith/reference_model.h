// reference_model.h - the built-in model, for commands that work without -m.
#pragma once

#include <string>

#include "pith/status.h"

namespace pith::app {

// Beside an installed program, else in the source tree. Errors: kNotFound, and what to do.
Result<std::string> reference_model();

}  // namespace pith::app
