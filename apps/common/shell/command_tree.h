// command_tree.h - the commands and options that CLI11 knows, as plain data: what completions and man pages are made from.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "common/shell/option_values.h"

namespace pith::app {

struct CommandOption {
    std::vector<std::string> names;  // "-m", "--model"; a positional's is its placeholder
    std::string placeholder;         // "TEXT", "INT"; empty where there is no value
    std::string default_value;
    std::string help;
    std::string group;
    bool required = false;
    bool repeats = false;
    ValueKind kind = ValueKind::kNone;
    std::vector<std::string> choices;
};

struct Command {
    std::string name;  // "pith train gate"
    std::string help;
    std::vector<CommandOption> options;
    std::vector<CommandOption> positionals;
    std::vector<Command> commands;

    std::string last_word() const { return name.substr(name.rfind(' ') + 1); }  // "gate"
    bool is_root() const { return name.find(' ') == std::string::npos; }
};

// `app` and all below it; own: what the program says of its own options. Options of the root that every command takes too
// (--verbose) are listed with each.
Command read_commands(const CLI::App & app, const OwnOptions & own);

// As JSON, by which one program tells the other what it has, and back; an empty command where the text is none.
std::string commands_json(const Command & root);
Command commands_of_json(std::string_view json);

// The command and all below it, parents first.
std::vector<const Command *> all_commands(const Command & root);

}  // namespace pith::app
