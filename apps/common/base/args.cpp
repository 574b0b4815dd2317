// args.cpp - explains what CLI11 refuses.
#include "common/base/args.h"

#include <algorithm>
#include <cctype>

#include "common/options/options.h"
#include "core/text.h"

namespace pith::app {
namespace {

// The innermost command that was named: of `pith calibrate heads` that is `heads`.
const CLI::App & chosen_command(const CLI::App & root) {
    const CLI::App * command = &root;
    while (!command->get_subcommands().empty()) { command = command->get_subcommands().front(); }
    return *command;
}

// "pith calibrate heads"
std::string full_name(const CLI::App & command) {
    const CLI::App * parent = command.get_parent();
    return parent == nullptr ? "pith" : full_name(*parent) + " " + command.get_name();
}

std::vector<std::string> flag_names(const CLI::App & command) {
    std::vector<std::string> names;
    for (const CLI::Option * option : command.get_options()) {
        for (const std::string & name : option->get_lnames()) { names.push_back("--" + name); }
        for (const std::string & name : option->get_snames()) { names.push_back("-" + name); }
    }
    return names;
}

// CLI11 reads "-xyz" as -x with the value "yz". Where that value makes no sense, nobody meant it.
std::string long_flag_behind_one_dash(const CLI::ParseError & error, const std::vector<std::string> & arguments) {
    const std::string what = error.what();
    for (const std::string & argument : arguments) {
        const bool is_word = argument.size() > 2 && argument[0] == '-' &&
                             std::isalpha(static_cast<unsigned char>(argument[1])) != 0 &&
                             std::isalpha(static_cast<unsigned char>(argument[2])) != 0;
        if (!is_word) { continue; }
        const std::string value = argument.substr(2);
        if (what.ends_with(" = " + value) || what.ends_with("," + value)) { return argument; }
    }
    return {};
}

// Of a letter every other one is near: "-b" is no typing error of "-h". And --budget may be part of what a command has
// (--ask-budget).
std::string did_you_mean_flag(const std::string & word, const std::vector<std::string> & names, const std::string & otherwise) {
    if (!word.starts_with("--")) { return otherwise; }
    const std::string end = word.substr(1);  // "-budget"
    const auto longer =
        std::ranges::find_if(names, [&](const std::string & name) { return name != word && name.ends_with(end); });
    return longer != names.end() ? "; did you mean '" + *longer + "'?" : did_you_mean(word, names, otherwise);
}

bool may_be_empty(const CLI::Option & option) {
    return std::ranges::any_of(option.get_lnames(), [](const std::string & name) {
        const OptionRow * row = find_option("--" + name);
        return row != nullptr && row->may_be_empty;
    });
}

}  // namespace

void refuse_empty_values(CLI::App & root) {
    for (CLI::Option * option : root.get_options()) {
        if (option->get_items_expected_max() == 0 || may_be_empty(*option)) { continue; }
        option->check([](const std::string & value) {
            return std::string(value.empty() ? "the value is empty; give one, or leave the option out" : "");
        });
    }
    for (CLI::App * command : root.get_subcommands([](const CLI::App *) { return true; })) { refuse_empty_values(*command); }
}

std::string nearest_name(const std::string & word, const std::vector<std::string> & names) {
    std::string best;
    size_t best_distance = std::max<size_t>(2, word.size() / 3) + 1;
    for (const std::string & name : names) {
        const size_t distance = edit_distance(word, name);
        if (distance < best_distance) {
            best = name;
            best_distance = distance;
        }
    }
    return best;
}

std::string did_you_mean(const std::string & word, const std::vector<std::string> & names, const std::string & otherwise) {
    const std::string near = nearest_name(word, names);
    return near.empty() ? otherwise : "; did you mean '" + near + "'?";
}

std::string usage_message(const CLI::App & root, const CLI::ParseError & error, const std::vector<std::string> & arguments) {
    const CLI::App & command = chosen_command(root);
    if (const std::string flag = long_flag_behind_one_dash(error, arguments); !flag.empty()) {
        return "unknown option '" + flag + "'; `" + full_name(command) + " --help` lists them";
    }
    const bool at_root = &command == &root;
    const std::vector<std::string> extras = root.remaining(true);
    const bool strangers = dynamic_cast<const CLI::ExtrasError *>(&error) != nullptr ||
                           dynamic_cast<const CLI::RequiredError *>(&error) != nullptr;  // a typo explains what is missing
    if (strangers && !extras.empty()) {
        const std::string word = extras.front().substr(0, extras.front().find('='));
        if (at_root && word[0] != '-') {
            std::vector<std::string> names;
            for (const CLI::App * sub : root.get_subcommands([](const CLI::App *) { return true; })) {
                names.push_back(sub->get_name());
            }
            return "unknown command '" + word + "'" + did_you_mean(word, names, "; `pith` alone lists them");
        }
        const std::string help = "; `" + full_name(command) + " --help` lists them";
        return "unknown option '" + word + "'" + did_you_mean_flag(word, flag_names(command), help);
    }
    return std::string(error.what()) + (at_root ? "" : " (`" + full_name(command) + " --help` lists the options)");
}

}  // namespace pith::app
