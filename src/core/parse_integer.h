// parse_integer.h - a text that is a whole number and nothing else. Stage: set-up.
#pragma once

#include <charconv>
#include <concepts>
#include <string_view>
#include <system_error>

namespace pith {

// False, and `number` as it was: the text is empty, no number of this type, or goes on behind it. A plus is no part of one.
template <std::integral Number>
bool parse_integer(std::string_view text, Number & number, int base = 10) {
    Number read = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), read, base);
    if (error != std::errc{} || end != text.data() + text.size()) { return false; }
    number = read;
    return true;
}

}  // namespace pith
