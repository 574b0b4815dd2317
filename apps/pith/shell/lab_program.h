// lab_program.h - pith-lab, the program of the laboratory, started for its commands: found beside this one, or in PATH.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "common/base/lab_words.h"
#include "common/shell/command_tree.h"

namespace pith::app {

// "pith eval", where the command that the arguments name is the laboratory's; else empty.
std::string lab_command(const std::vector<std::string> & arguments);

// Becomes pith-lab with the same arguments. Returns, with the exit code, only where that is not possible, and has said why.
// what: of these it is that pith-lab does: "pith eval".
int start_lab(const std::string & what, const std::vector<std::string> & arguments);

// Lists a command of the laboratory among pith's own.
void add_lab_word(CLI::App & root, const LabWord & word);

// The commands of both programs; where pith-lab is not there, the words of its commands alone. Runs pith-lab.
Command all_programs_commands(const CLI::App & root);

}  // namespace pith::app
