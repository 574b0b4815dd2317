// read_arguments.h - the arguments as CLI11 reads them right: Pith's own names of options, values that nobody takes for flags.
#pragma once

#include <CLI/CLI.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pith/status.h"

namespace pith::app {

// Flags of llama.cpp for what Pith does anyway: they are left out.
struct TakenFlags {
    std::string_view names;         // between blanks
    std::string_view values;        // those for which that is so; "": the flag has none; of "on …" it may stand alone
    std::string_view command = {};  // where that counts; empty: wherever llama.cpp's flags are known
};

// Flags of llama.cpp for what Pith does not have, or calls otherwise: an error that says what to use instead.
struct RefusedFlags {
    std::string_view names;  // between blanks; "--spec-*": whatever begins so
    std::string_view instead;
    std::string_view command = {};
};

// What a program knows of llama.cpp beside the names in the table of options. Of two rows that have a name the first counts.
struct LlamaFlags {
    std::string_view commands = {};  // in which hands type them from habit, between blanks
    std::span<const TakenFlags> taken = {};
    std::span<const RefusedFlags> refused = {};
};

// The name of what a command takes words of a text by; CLI11 would split those in brackets ("[INST]") like a list.
inline constexpr const char * kPromptWords = "PROMPT";
// A word that came by it, as it was on the command line.
std::string as_typed(std::string word);

// What to give CLI11: llama.cpp's names become Pith's ("-ctk f16" → "--cache-type-k f16", "-ngl=9" → "--n-gpu-layers=9"), flags
// that ask for what Pith does anyway are left out, and a negative number is joined to its flag ("--budget -5" → "--budget=-5").
// What follows an option that takes a value stays as it is, whatever it looks like.
// Errors: kInvalidArgument: a flag that is refused, with what to use instead.
Result<std::vector<std::string>> read_arguments(const CLI::App & root, const std::vector<std::string> & arguments,
                                                const LlamaFlags & llama);

}  // namespace pith::app
