// reference_model.h - the files that come with the program: the built-in model and the recipes, for commands without -m.
#pragma once

#include <string>

#include "pith/status.h"

namespace pith::app {

// The built-in model. Errors: kNotFound, and what to do.
Result<std::string> reference_model();

// share/pith/models/NAME of the installed tree that this program lies in, wherever that was unpacked; else the source tree's
// models/NAME. Errors: kNotFound.
Result<std::string> built_in_file(const std::string & name);

}  // namespace pith::app
