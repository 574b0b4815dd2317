// completion.h - completion scripts, one for each shell, from the commands as data.
#pragma once

#include <string>

#include "common/shell/command_tree.h"

namespace pith::app {

std::string bash_completion(const Command & root);
std::string zsh_completion(const Command & root);
std::string fish_completion(const Command & root);

}  // namespace pith::app
