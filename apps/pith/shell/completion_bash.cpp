// completion_bash.cpp - a function for bash's `complete -F` (bash 4.3 or later; bash-completion is not needed).
// bash splits words at ':' and '=' too, which policies are full of: the script looks at the line itself, and takes off the
// candidates what bash will not replace.
#include <map>

#include "app/shell/completion.h"
#include "core/text.h"

namespace pith::app {
namespace {

constexpr const char * kBegin =
    R"(# bash completion for pith, made by `pith completion bash`

# Candidates for the last of several words that are joined by characters of $1, out of the list $2.
_pith_joined() {
    local last=${word##*[$1]}
    local before=${word%"$last"}
    compopt -o nospace
    mapfile -t COMPREPLY < <(compgen -P "$before" -W "$2" -- "$last")
}

_pith() {
    local line=${COMP_LINE:0:COMP_POINT} words=() path=pith previous word candidate positional='' commands='' options=''
    local -A actions=(['<file>']=-f ['<folder>']=-d)
    read -ra words <<<"$line"
    [[ $line == *[[:space:]] ]] && words+=('')
    COMPREPLY=()
    ((${#words[@]} > 1)) || return 0
    word=${words[-1]}
    unset 'words[-1]'
    for candidate in "${words[@]:1}"; do
        case "$path $candidate" in
)";

constexpr const char * kAfterPath =
    R"(        esac
    done
    previous=${words[-1]}
    if [[ $word == --*=* ]]; then
        previous=${word%%=*}
        word=${word#*=}
    fi
    case "$path $previous" in
)";

constexpr const char * kBetween =
    R"(        *)
            case "$path" in
)";

constexpr const char * kBashEnd =
    R"(            esac
            if [[ $word == -* ]]; then
                mapfile -t COMPREPLY < <(compgen -W "$options" -- "$word")
            else
                mapfile -t COMPREPLY < <(compgen -W "$commands $positional" -- "$word")
                case "$positional" in
                    '<file>' | '<folder>')
                        compopt -o filenames
                        mapfile -t COMPREPLY < <(compgen -W "$commands" -- "$word"; compgen "${actions[$positional]}" -- "$word") ;;
                    '') [[ -z $commands && -z $word ]] && mapfile -t COMPREPLY < <(compgen -W "$options") ;;
                esac
            fi ;;
    esac
    # bash replaces only what stands behind its last break of words.
    local breaks=${COMP_WORDBREAKS//[^:=]/} kept
    if [[ -n $breaks ]]; then
        kept=${word%"${word##*[$breaks]}"}
        COMPREPLY=("${COMPREPLY[@]#"$kept"}")
    fi
}
complete -F _pith pith
)";

std::string bash_action(const CommandOption & option) {
    const std::string list = "\"" + join(option.choices, " ") + "\"";
    switch (option.kind) {
        case ValueKind::kFile:
            return "compopt -o filenames; mapfile -t COMPREPLY < <(compgen -f -- \"$word\")";
        case ValueKind::kFolder:
            return "compopt -o filenames; mapfile -t COMPREPLY < <(compgen -d -- \"$word\")";
        case ValueKind::kOneOf:
            return "mapfile -t COMPREPLY < <(compgen -W " + list + " -- \"$word\")";
        case ValueKind::kListOf:
            return "_pith_joined , " + list;
        case ValueKind::kPolicies:
            return "_pith_joined ,+ " + list;
        case ValueKind::kText:
        case ValueKind::kNone:
            break;
    }
    return ":";
}

// What a command's first word may be: choices, or the marks that the script knows.
std::string positional(const Command & command) {
    if (command.positionals.empty()) { return ""; }
    const CommandOption & first = command.positionals.front();
    if (first.kind == ValueKind::kFile) { return "<file>"; }
    if (first.kind == ValueKind::kFolder) { return "<folder>"; }
    return join(first.choices, " ");
}

}  // namespace

std::string bash_completion(const Command & root) {
    std::vector<std::string> paths;
    std::map<std::string, std::vector<std::string>> patterns_by_action;
    std::string words;
    for (const Command * command : all_commands(root)) {
        if (!command->is_root()) { paths.push_back("'" + command->name + "'"); }
        std::vector<std::string> names, below;
        for (const CommandOption & option : command->options) {
            for (const std::string & name : option.names) {
                names.push_back(name);
                if (option.kind != ValueKind::kNone) {
                    patterns_by_action[bash_action(option)].push_back("'" + command->name + " " + name + "'");
                }
            }
        }
        for (const Command & sub : command->commands) { below.push_back(sub.last_word()); }
        words += "                '" + command->name + "') commands='" + join(below, " ") + "' positional='" +
                 positional(*command) + "' options='" + join(names, " ") + "' ;;\n";
    }
    std::string out = kBegin;
    out += "            " + join(paths, "|") + ") path+=\" $candidate\" ;;\n";
    out += kAfterPath;
    for (const auto & [what, patterns] : patterns_by_action) {
        out += "        " + join(patterns, "|") + ") " + what + " ;;\n";
    }
    return out + kBetween + words + kBashEnd;
}

}  // namespace pith::app
