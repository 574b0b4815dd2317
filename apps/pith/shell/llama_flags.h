// llama_flags.h - llama.cpp's flags as hands type them from habit: taken where Pith means the same, refused by name where not.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "pith/status.h"

namespace pith::app {

// Of `pith run …` and `pith chat …`: flags that Pith calls otherwise get its names, and those that ask for what Pith does
// anyway are left out. Other commands' arguments come back as they are, and so does what follows an option that takes a value.
// Errors: kInvalidArgument: a flag for what Pith does not have, or has by another name: says which.
Result<std::vector<std::string>> adopt_llama_flags(const CLI::App & root, const std::vector<std::string> & arguments);

}  // namespace pith::app
