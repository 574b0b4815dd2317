// option_values.h - what can stand where an option wants a value, for completion. Names come from the program's own lists.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "common/options/option_row.h"

namespace pith::app {

struct OptionValues {
    ValueKind kind = ValueKind::kText;
    Words choices;
};

// What completion must know of a program's own option, or of one that a command takes otherwise than the table of options says.
struct OwnOption {
    std::string_view command;  // empty: of any that no row above names
    std::string_view option;   // "--policy"; a positional's placeholder
    ValueKind kind;
    std::function<Words()> choices = [] { return Words(); };
};
using OwnOptions = std::vector<OwnOption>;

// Of option `name` ("--policy"; a positional's placeholder) of `command` ("pith run"): by the program's own rows, then by the
// table of options. A number offers nothing, and a text that is named nowhere is a file.
OptionValues values_of(const OwnOptions & own, const std::string & command, const std::string & name,
                       const std::string & placeholder);

// A list of the program's own rows.
std::function<Words()> these(Words words);

}  // namespace pith::app
