// command_tree.cpp - walks CLI11's commands and options.
#include "common/shell/command_tree.h"

#include <nlohmann/json.hpp>

namespace pith::app {

// As nlohmann::json finds them: each field under its name.
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(CommandOption, names, placeholder, default_value, help, group, required, repeats, kind,
                                   choices)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Command, name, help, options, positionals, commands)

namespace {

CommandOption read_option(const std::string & command, const CLI::Option & option, const OwnOptions & own) {
    CommandOption out;
    for (const std::string & name : option.get_snames()) { out.names.push_back("-" + name); }
    for (const std::string & name : option.get_lnames()) { out.names.push_back("--" + name); }
    if (out.names.empty()) { out.names.push_back(option.get_name()); }
    out.help = option.get_description();
    out.group = option.get_group();
    out.required = option.get_required();
    const bool takes_value = option.get_items_expected_max() > 0;
    if (!takes_value) { return out; }
    out.placeholder = option.get_type_name();
    out.default_value = option.get_default_str();
    out.repeats = option.get_items_expected_max() > 1;
    const OptionValues values = values_of(own, command, out.names.back(), out.placeholder);
    out.kind = values.kind;
    out.choices = values.choices;
    return out;
}

// `shared`: an option of the root that its commands take too.
Command read_command(const CLI::App & app, const std::string & name, const CLI::Option * shared, const OwnOptions & own) {
    Command out;
    out.name = name;
    out.help = app.get_description();
    for (const CLI::Option * option : app.get_options()) {
        if (option->get_group().empty()) { continue; }  // hidden
        (option->nonpositional() ? out.options : out.positionals).push_back(read_option(name, *option, own));
    }
    if (shared != nullptr && !out.is_root()) { out.options.push_back(read_option(name, *shared, own)); }
    for (const CLI::App * sub : app.get_subcommands([](const CLI::App *) { return true; })) {
        if (sub->get_group().empty()) { continue; }  // hidden
        out.commands.push_back(read_command(*sub, name + " " + sub->get_name(), shared, own));
    }
    return out;
}

void collect(const Command & command, std::vector<const Command *> & out) {
    out.push_back(&command);
    for (const Command & sub : command.commands) { collect(sub, out); }
}

}  // namespace

Command read_commands(const CLI::App & app, const OwnOptions & own) {
    return read_command(app, app.get_name(), app.get_option_no_throw("--verbose"), own);
}

std::string commands_json(const Command & root) {
    return nlohmann::json(root).dump();
}

Command commands_of_json(std::string_view json) {
    try {
        return nlohmann::json::parse(json).get<Command>();
    } catch (const nlohmann::json::exception &) { return {}; }
}

std::vector<const Command *> all_commands(const Command & root) {
    std::vector<const Command *> out;
    collect(root, out);
    return out;
}

}  // namespace pith::app
