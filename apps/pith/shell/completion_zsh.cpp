// completion_zsh.cpp - a file for zsh's $fpath: one function for each command, with the options' help.
#include <algorithm>

#include "app/shell/completion.h"
#include "core/text.h"

namespace pith::app {
namespace {

constexpr const char * kHelpers =
    R"(# The last of several words that are joined by characters of $1, out of the others.
_pith_joined() {
    local joints=$1
    shift 1
    compset -P "*[$joints]"
    compadd -S '' "$@" -a _pith_words
}
)";

constexpr const char * kZshEnd =
    R"(if [[ $funcstack[1] == _pith ]]; then
    _pith_of_pith "$@"
else
    compdef _pith_of_pith pith
fi
)";

std::string function_of(const std::string & command) {
    std::string name = "_pith_of_" + command;
    std::replace(name.begin(), name.end(), ' ', '_');
    return name;
}

// Between single quotes, where _arguments reads brackets and colons.
std::string escaped(const std::string & text) {
    std::string out;
    for (const char c : text) {
        if (c == '\'') {
            out += "'\\''";
        } else {
            if (c == '[' || c == ']' || c == ':' || c == '\\') { out += '\\'; }
            out += c;
        }
    }
    return out;
}

std::string action(const CommandOption & option) {
    switch (option.kind) {
        case ValueKind::kFile:
            return "_files";
        case ValueKind::kFolder:
            return "_files -/";
        case ValueKind::kOneOf:
            return "(" + join(option.choices, " ") + ")";
        case ValueKind::kListOf:
            return "{_pith_words=(" + join(option.choices, " ") + "); _pith_joined ,}";
        case ValueKind::kPolicies:
            return "{_pith_words=(" + join(option.choices, " ") + "); _pith_joined ,+}";
        case ValueKind::kText:
        case ValueKind::kNone:
            break;
    }
    return " ";
}

// One line of _arguments for each of the option's names: they exclude each other unless it may be repeated.
std::string option_lines(const CommandOption & option) {
    std::string out;
    for (const std::string & name : option.names) {
        const bool is_long = name.starts_with("--");
        const std::string alone = option.repeats ? "*" : "(" + join(option.names, " ") + ")";
        out += "        '" + alone + name + (option.kind == ValueKind::kNone ? "" : is_long ? "=" : "+");
        out += "[" + escaped(option.help) + "]";
        if (option.kind != ValueKind::kNone) { out += ":" + escaped(option.placeholder) + ":" + action(option); }
        out += "' \\\n";
    }
    return out;
}

std::string function_text(const Command & command) {
    std::string out = function_of(command.name) + "() {\n    local curcontext=\"$curcontext\" state line _pith_words\n";
    out += "    _arguments -C \\\n";
    for (const CommandOption & option : command.options) { out += option_lines(option); }
    if (command.commands.empty()) {
        for (size_t i = 0; i < command.positionals.size(); ++i) {
            const CommandOption & positional = command.positionals[i];
            out += "        '" + (positional.repeats ? "*" : std::to_string(i + 1)) + ":" + escaped(positional.names.front()) +
                   ":" + action(positional) + "' \\\n";
        }
        return out + "        && return 0\n    return 1\n}\n";
    }
    out +=
        "        '1: :->first' '*:: :->rest' && return 0\n    case $state in\n        first)\n            local -a "
        "commands=(\n";
    for (const Command & sub : command.commands) {
        out += "                '" + sub.last_word() + ":" + escaped(sub.help) + "'\n";
    }
    out += "            )\n            _describe command commands\n";
    if (!command.positionals.empty()) {
        const CommandOption & first = command.positionals.front();
        if (first.kind == ValueKind::kFile) { out += "            _files\n"; }
        if (first.kind == ValueKind::kOneOf) { out += "            compadd " + join(first.choices, " ") + "\n"; }
    }
    out += "            ;;\n        rest)\n            case $line[1] in\n";
    for (const Command & sub : command.commands) {
        out += "                " + sub.last_word() + ") " + function_of(sub.name) + " ;;\n";
    }
    // A command of words and commands: behind its own word come its options.
    std::string own;
    for (const CommandOption & option : command.options) { own += option_lines(option); }
    out += "                *) _arguments \\\n" + own + "                    '*: :_files' ;;\n";
    return out + "            esac ;;\n    esac\n}\n";
}

}  // namespace

std::string zsh_completion(const Command & root) {
    std::string out = "#compdef pith\n# zsh completion for pith, made by `pith completion zsh`\n";
    out += kHelpers;
    for (const Command * command : all_commands(root)) { out += "\n" + function_text(*command); }
    return out + "\n" + kZshEnd;
}

}  // namespace pith::app
