// man_page.cpp - `pith man [COMMAND]`: prints the manual page of a command, as roff.
#include "app/shell/man_page.h"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "app/shell/commands.h"
#include "app/shell/lab_program.h"
#include "common/base/args.h"
#include "common/base/errors.h"

namespace pith::app {
namespace {

// Characters that roff would read, or set as others than those to be typed. '.' and '\'' only count where a line begins.
std::string roff(const std::string & text) {
    std::string out;
    for (const char c : text) {
        switch (c) {
            case '\\':
                out += "\\e";
                break;
            case '-':
                out += "\\-";
                break;
            case '`':
                out += "\\(ga";
                break;
            case '\'':
                out += "\\(aq";
                break;
            case '^':
                out += "\\(ha";
                break;
            case '~':
                out += "\\(ti";
                break;
            case '"':
                out += "\\(dq";
                break;
            default:
                out += c;
        }
    }
    return out.starts_with('.') ? "\\&" + out : out;
}

std::string upper(std::string text) {
    std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
    return text;
}

// "pith-train-gate", as the page's file is called.
std::string page_name(const Command & command) {
    std::string name = command.name;
    std::replace(name.begin(), name.end(), ' ', '-');
    return name;
}

std::string reference(const Command & command) {
    return "\\fB" + roff(page_name(command)) + "\\fR(1)";
}

std::string described(const CommandOption & option) {
    std::string out = ".TP\n";
    for (size_t i = 0; i < option.names.size(); ++i) {
        const bool is_option = option.names[i].starts_with('-');
        out += (i > 0 ? ", " : "") + std::string(is_option ? "\\fB" : "\\fI") + roff(option.names[i]) + "\\fR";
    }
    if (!option.placeholder.empty()) { out += " \\fI" + roff(option.placeholder) + "\\fR"; }
    if (option.repeats) { out += " \\&..."; }
    out += "\n" + roff(option.help);
    if (!option.default_value.empty()) { out += "\n.br\nDefault: " + roff(option.default_value); }
    if (option.required) { out += "\n.br\nMust be given."; }
    return out + "\n";
}

std::string synopsis(const Command & command) {
    std::string out = "\\fB" + roff(command.name) + "\\fR [\\fIOPTIONS\\fR]";
    for (const CommandOption & positional : command.positionals) {
        const std::string name = "\\fI" + roff(positional.names.front()) + "\\fR" + (positional.repeats ? " ..." : "");
        out += " " + (positional.required ? name : "[" + name + "]");
    }
    if (!command.commands.empty()) { out += std::string(" ") + (command.is_root() ? "\\fICOMMAND\\fR" : "[\\fICOMMAND\\fR]"); }
    return out + "\n";
}

// One section for each group, in the order in which groups come.
std::string options_of(const Command & command) {
    std::vector<std::string> groups;
    for (const CommandOption & option : command.options) {
        if (std::find(groups.begin(), groups.end(), option.group) == groups.end()) { groups.push_back(option.group); }
    }
    std::string out;
    for (const std::string & group : groups) {
        out += ".SH " + roff(upper(group)) + "\n";
        for (const CommandOption & option : command.options) {
            if (option.group == group) { out += described(option); }
        }
    }
    return out;
}

}  // namespace

std::string man_page(const Command & command, const Command & root) {
    std::string out = ".\\\" Made by `" + std::string("pith man`: edit the options' help instead.\n");
    out += ".TH \"" + roff(upper(page_name(command))) + "\" 1 \"\" \"pith " PITH_VERSION "\" \"User Commands\"\n";
    out += ".SH NAME\n" + roff(page_name(command)) + " \\- " + roff(command.help) + "\n";
    out += ".SH SYNOPSIS\n" + synopsis(command);
    if (!command.positionals.empty()) {
        out += ".SH ARGUMENTS\n";
        for (const CommandOption & positional : command.positionals) { out += described(positional); }
    }
    out += options_of(command);
    if (!command.commands.empty()) {
        out += ".SH COMMANDS\n";
        for (const Command & sub : command.commands) { out += ".TP\n" + reference(sub) + "\n" + roff(sub.help) + "\n"; }
    }
    out +=
        ".SH EXIT STATUS\n0 where all went well, 1 where something failed, 2 where what was asked makes no sense, 130 where "
        "Ctrl\\-C ended it early (0 of serve, of chat at a terminal and of run \\-\\-follow, which end so).\n";
    out += "Standard output holds results alone; messages go to standard error.\n";
    if (!command.is_root()) { out += ".SH SEE ALSO\n" + reference(root) + "\n"; }
    return out;
}

void add_man_command(CLI::App & root, int & exit_code) {
    auto words = std::make_shared<std::vector<std::string>>();
    auto list = std::make_shared<bool>(false);
    CLI::App * command = root.add_subcommand("man", "Print the manual page of a command: pith man run | man -l -");
    command->add_option("COMMAND", *words, "Words of the command: run, train gate, …; none: pith itself");
    command->add_flag("--list", *list, "The names of all pages");
    command->callback([words, list, &root, &exit_code] {
        const Command tree = all_programs_commands(root);
        std::string wanted = tree.name;
        for (const std::string & word : *words) { wanted += " " + word; }
        std::vector<std::string> names;
        for (const Command * page : all_commands(tree)) {
            if (*list) {
                std::printf("%s\n", page->name.c_str());
            } else if (page->name == wanted) {
                std::fputs(man_page(*page, tree).c_str(), stdout);
                return;
            }
            names.push_back(page->name);
        }
        if (*list) { return; }
        exit_code =
            fail_usage("no manual page of '" + wanted + "'" + did_you_mean(wanted, names, "; `pith man --list` lists them"));
    });
}

}  // namespace pith::app
