// flag_names.cpp - an item's flag, from the table of options.
#include "common/base/flag_names.h"

#include "common/options/options.h"

namespace pith::app {

std::string_view flag_of(std::string_view name) {
    const OptionRow * row = name.empty() ? nullptr : item::find(kOptions, name);
    if (row == nullptr) { return name; }
    return row->item_shown.empty() ? long_name(*row) : row->item_shown;
}

std::string message_of(const Status & status) {
    return status.message(flag_of);
}

}  // namespace pith::app
