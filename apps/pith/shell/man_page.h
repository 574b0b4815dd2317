// man_page.h - manual pages from the commands as data.
#pragma once

#include <string>

#include "common/shell/command_tree.h"

namespace pith::app {

// In roff, for `man -l`.
std::string man_page(const Command & command, const Command & root);

}  // namespace pith::app
