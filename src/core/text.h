// text.h - small text helpers for the policy grammar and its error messages. Stage: set-up.
// Pure C++: no ggml, no I/O.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace pith {

// The pieces between separators; an empty text is one empty piece. Views into `text`.
std::vector<std::string_view> split(std::string_view text, char separator);
std::string join(std::span<const std::string_view> pieces, std::string_view separator);
std::string_view trim(std::string_view text);
std::string quoted(std::string_view text);  // 'text'

// The shortest decimal that reads back as the number: "20", "1.5".
std::string format_number(double number);

// The known name with the smallest edit distance to `name`, case ignored; empty when none is near enough to be meant
// (more than two edits, or more than half of the letters).
std::string_view nearest(std::string_view name, std::span<const std::string_view> known);

}  // namespace pith
