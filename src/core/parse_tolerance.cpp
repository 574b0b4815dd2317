// parse_tolerance.cpp - a share as users write it.
#include "core/parse_tolerance.h"

#include <charconv>

#include "core/items.h"
#include "core/text.h"

namespace pith {

Result<double> parse_tolerance(std::string_view text) {
    text = trim(text);
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed);
    const std::string_view suffix = trim(text.substr(static_cast<size_t>(end - text.data())));
    const bool is_percent = suffix == "%";
    const double share = is_percent ? value / 100 : value;
    if (error == std::errc{} && (suffix.empty() || is_percent) && share >= 0 && share <= 1) { return share; }
    return {ErrorCode::kInvalidArgument,
            item::kTolerance + " is " + quoted(text) +
                ": give the share of attention below which an entry may go, 1% or 0.01 (0 to 100%)"};
}

}  // namespace pith
