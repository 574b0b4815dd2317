// option_values.cpp - where the values of an option are looked up.
#include "common/shell/option_values.h"

#include <utility>

#include "common/options/options.h"

namespace pith::app {

std::function<Words()> these(Words words) {
    return [words = std::move(words)] { return words; };
}

OptionValues values_of(const OwnOptions & own, const std::string & command, const std::string & name,
                       const std::string & placeholder) {
    for (const OwnOption & row : own) {
        if (row.option == name && (row.command.empty() || row.command == command)) { return {row.kind, row.choices()}; }
    }
    const bool is_text = placeholder.starts_with("TEXT");  // with what it is checked for: "TEXT:{on,off}"
    const OptionRow * row = is_text ? find_option(name) : nullptr;
    if (row != nullptr) { return {row->kind, choices_of(*row)}; }
    return {placeholder == "TEXT" ? ValueKind::kFile : ValueKind::kText, {}};
}

}  // namespace pith::app
