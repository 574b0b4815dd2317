// completion.h - completion scripts, one for each shell, from the commands as data.
#pragma once

#include <string>
#include <vector>

#include "command_tree.h"

namespace pith::app {

std::string bash_completion(const Command & root);
std::string zsh_completion(const Command & root);
std::string fish_completion(const Command & root);

// Words in a row, as all of them write lists.
std::string joined(const std::vector<std::string> & words, const char * between = " ");

}  // namespace pith::app
