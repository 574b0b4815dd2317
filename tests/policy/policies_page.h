// policies_page.h - a part's row in the tables of docs/policies.md, from what the part says of itself.
#pragma once

#include <string>

#include "pith/policies.h"

namespace pith::test {

// "| `knorm` | −‖k_j‖₂ before RoPE | keys | `recent` 32 |"
inline std::string row_of(const PolicyInfo & part) {
    std::string options;
    for (const OptionInfo & option : part.options) {
        options += (options.empty() ? "`" : ", `") + option.name + "` " + option.default_value;
    }
    std::string row = "|";
    for (const std::string & cell : {"`" + part.name + "`", part.formula, part.needs, options}) {
        row += (cell.empty() ? "" : " ") + cell + " |";
    }
    return row;
}

}  // namespace pith::test
