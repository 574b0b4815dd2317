// csv_field.cpp - quotes where it must. Stage: core.
#include "core/csv_field.h"

namespace pith {

std::string csv_field(const std::string & text) {
    if (text.find_first_of(",\"\n") == std::string::npos) { return text; }
    std::string quoted = "\"";
    for (const char c : text) {
        if (c == '"') { quoted += '"'; }
        quoted += c;
    }
    return quoted + "\"";
}

}  // namespace pith
