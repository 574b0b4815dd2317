// args.h - what CLI11 does not say of wrong arguments: "did you mean", and that a value is empty.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace pith::app {

// CLI11 reads an empty value as 0, and an empty name as none: `-n "$N"` with N unset. Of all commands' options
// those may be empty of which the table of options says so, no other.
void refuse_empty_values(CLI::App & root);

// One line for what CLI11 refused, with the nearest known flag or subcommand.
// arguments: those that it was given.
std::string usage_message(const CLI::App & root, const CLI::ParseError & error, const std::vector<std::string> & arguments);

// The name nearest to `word`, or nothing when none is near.
std::string nearest_name(const std::string & word, const std::vector<std::string> & names);
// How a message about an unknown word ends: "; did you mean 'chat'?", or `otherwise` when no name is near.
std::string did_you_mean(const std::string & word, const std::vector<std::string> & names, const std::string & otherwise);

}  // namespace pith::app
