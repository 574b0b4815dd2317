// program.h - what both programs do from main() on: read the command line, run the command, and turn whatever goes wrong into
// one line and an exit code.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

#include "common/options/read_arguments.h"

namespace pith::app {

using Arguments = std::vector<std::string>;  // without the program's own name

struct Program {
    const char * version;      // "pith 0.1.0"
    const char * description;  // what --help begins with
    const char * short_help;   // without a command
    // Adds the commands, each of which sets exit_code when it was chosen. The arguments stay where they are while it runs.
    std::function<void(CLI::App & root, int & exit_code, const Arguments & arguments)> add_commands;
    LlamaFlags llama = {};  // what it does with llama.cpp's flags, beside those that have another name here
};

// Commands are called `pith COMMAND` in either. Returns the exit code.
int main_of(const Program & program, const Arguments & arguments);

}  // namespace pith::app
