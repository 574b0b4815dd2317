// csv_field.h - a field of comma-separated values. Stage: core.
// Pure: text in, text out.
#pragma once

#include <string>

namespace pith {

// In quotes where a comma, a quote or a line break is in it (RFC 4180).
std::string csv_field(const std::string & text);

}  // namespace pith
