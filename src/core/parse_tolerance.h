// parse_tolerance.h - how much a text may lose, as users write it (policy/tolerance.h says what it does).
// Pure C++: no ggml, no I/O.
#pragma once

#include <string_view>

#include "pith/status.h"

namespace pith {

// "1%" or "0.01". Errors: kInvalidArgument for anything that is not from 0 to 100 %.
Result<double> parse_tolerance(std::string_view text);

}  // namespace pith
