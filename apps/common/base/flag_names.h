// flag_names.h - what the library's items are called on the command line: a budget is --budget.
#pragma once

#include <string>
#include <string_view>

#include "pith/status.h"

namespace pith::app {

// As ItemNames has it.
std::string_view flag_of(std::string_view item);
// An error's line with flags in it.
std::string message_of(const Status & status);

}  // namespace pith::app
