// reverse_prompt.h - texts at which an answer ends, as llama.cpp's flag has them.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "pith/status.h"

namespace pith::app {

struct ReversePromptFlags {
    std::vector<std::string> texts;

    void add_to(CLI::App & command);
    // As GenerateOptions wants them. escape: "\n" is a line break.   Errors: kInvalidArgument: an empty one.
    Result<std::vector<std::string>> read(bool escape) const;
};

}  // namespace pith::app
