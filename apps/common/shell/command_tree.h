// command_tree.h - the commands and options that CLI11 knows, as plain data: what completions and man pages are made from.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace pith::app {

// What can stand where an option wants a value.
enum class ValueKind {
    kNone,  // a flag takes none
    kText,  // anything: nothing to offer
    kFile,
    kFolder,
    kOneOf,    // one of the choices
    kListOf,   // choices joined by ','
    kPolicies  // choices joined by '+' to a policy, policies joined by ','
};

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

// `app` and all below it. Options of the root that every command takes too (--verbose) are listed with each.
Command read_commands(const CLI::App & app);

// The command and all below it, parents first.
std::vector<const Command *> all_commands(const Command & root);

}  // namespace pith::app
