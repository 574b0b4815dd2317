// option_values.h - what can stand where an option wants a value, for completion. Names come from the program's own lists.
#pragma once

#include <string>
#include <vector>

#include "common/shell/command_tree.h"

namespace pith::app {

struct OptionValues {
    ValueKind kind = ValueKind::kText;
    std::vector<std::string> choices;
};

// Of option `name` ("--policy"; a positional's placeholder) of `command` ("pith run"). A text that is named nowhere is a file.
OptionValues values_of(const std::string & command, const std::string & name, const std::string & placeholder);

}  // namespace pith::app
