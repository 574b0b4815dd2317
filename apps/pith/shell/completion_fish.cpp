// completion_fish.cpp - a file for fish's vendor_completions.d: one `complete` for each option and command.
#include "app/shell/completion.h"
#include "core/text.h"

namespace pith::app {
namespace {

constexpr const char * kFishEnd =
    R"(
# The last of several words that are joined by characters of $argv[1], out of $argv[2..].
function __pith_joined
    set -l word (string replace -r '^--[^=]*=' '' -- (commandline -ct))
    set -l before (string replace -r "[^$argv[1]]*\$" '' -- $word)
    printf '%s\n' $before$argv[2..]
end
)";

std::string quoted(const std::string & text) {
    std::string out = "'";
    for (const char c : text) {
        if (c == '\'' || c == '\\') { out += '\\'; }
        out += c;
    }
    return out + "'";
}

// fish offers files of its own accord, unless -x or -f says that there are none.
std::string values(const CommandOption & option) {
    switch (option.kind) {
        case ValueKind::kNone:
            return "";
        case ValueKind::kText:
            return " -x";
        case ValueKind::kFile:
            return " -r -F";
        case ValueKind::kFolder:
            return " -x -a '(__fish_complete_directories)'";
        case ValueKind::kOneOf:
            return " -x -a " + quoted(join(option.choices, " "));
        case ValueKind::kListOf:
            return " -x -a " + quoted("(__pith_joined , " + join(option.choices, " ") + ")");
        case ValueKind::kPolicies:
            return " -x -a " + quoted("(__pith_joined ',+' " + join(option.choices, " ") + ")");
    }
    return "";
}

std::string in_command(const std::string & command) {
    return "complete -c pith -n 'test (__pith_command) = \"" + command + "\"'";
}

std::string lines_of(const Command & command) {
    const std::string begin = in_command(command.name);
    std::string out;
    for (const Command & sub : command.commands) {
        out += begin + " -f -a " + sub.last_word() + " -d " + quoted(sub.help) + "\n";
    }
    if (!command.positionals.empty()) {
        const CommandOption & first = command.positionals.front();
        const std::string offered = values(first);
        out += begin +
               (first.kind == ValueKind::kFile ? " -F" : " -f" + (offered.starts_with(" -x") ? offered.substr(3) : offered)) +
               "\n";
    }
    for (const CommandOption & option : command.options) {
        out += begin;
        for (const std::string & name : option.names) {
            out += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
        }
        out += values(option) + " -d " + quoted(option.help) + "\n";
    }
    return out;
}

}  // namespace

std::string fish_completion(const Command & root) {
    std::string out = "# fish completion for pith, made by `pith completion fish`\n\n";
    out += "# The command that the line names so far: \"pith train gate\".\nfunction __pith_command\n    set -l path pith\n";
    out += "    for word in (commandline -opc)[2..]\n        switch \"$path $word\"\n            case";
    for (const Command * command : all_commands(root)) {
        if (!command->is_root()) { out += " '" + command->name + "'"; }
    }
    out += "\n                set path \"$path $word\"\n        end\n    end\n    echo $path\nend\n";
    out += kFishEnd;
    out += "\ncomplete -c pith -f\n";
    for (const Command * command : all_commands(root)) { out += lines_of(*command); }
    return out;
}

}  // namespace pith::app
