// help_text.h - how --help prints an option: without the list of others that it does not go with, which the error says.
#pragma once

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string>

namespace pith::app {

class HelpText : public CLI::Formatter {
public:
    std::string make_option_opts(const CLI::Option * option) const override {
        const std::string text = CLI::Formatter::make_option_opts(option);
        return text.substr(0, std::min(text.find(" Needs:"), text.find(" Excludes:")));
    }
};

}  // namespace pith::app
