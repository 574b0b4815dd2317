// check.h - what many numbers that users give are checked for. Stage: set-up.
// Pure C++: no ggml, no I/O.
#pragma once

#include <cstdint>

#include "pith/status.h"

namespace pith {

// Errors: kInvalidArgument: "samples is 0: give 1 or more".
Status check_at_least(const Wording & name, int64_t value, int64_t low);

}  // namespace pith
