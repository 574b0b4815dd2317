// text.h - small text helpers: lists and numbers in messages, names compared. Stage: set-up.
// Pure C++: no ggml, no I/O.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <ranges>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace pith {

// The pieces between separators; an empty text is one empty piece. Views into `text`.
std::vector<std::string_view> split(std::string_view text, char separator);
std::string_view trim(std::string_view text);
std::string quoted(std::string_view text);    // 'text'
std::string to_lower(std::string_view text);  // of ASCII; other bytes as they are
// White space as ASCII has it stands there, or nothing does.
bool starts_with_space(std::string_view text);
bool ends_in_space(std::string_view text);
// For terminals: '?' in place of every control character (C0, DEL, C1), which in a stranger's file may move the cursor, change
// colours, or begin a line of its own.
std::string without_controls(std::string_view text);

// Strings, views or literals, in any container.
template <class Range>
concept Texts = std::ranges::input_range<Range> && std::convertible_to<std::ranges::range_reference_t<Range>, std::string_view>;

// "a, b, c"
template <Texts Pieces>
std::string join(const Pieces & pieces, std::string_view separator) {
    std::string text;
    std::string_view between;  // nothing before the first
    for (const auto & piece : pieces) {
        text += between;
        text += std::string_view(piece);
        between = separator;
    }
    return text;
}

// Ascending numbers: "0 to 23" where none is left out, "5, 11, 17" otherwise.
std::string list_of_numbers(std::span<const int> numbers);
// The shortest decimal that reads back as the number: "20", "1.5".
std::string format_number(double number);
std::string with_commas(int64_t number);  // "2,945"

// Levenshtein's distance: insertions, deletions and replacements; a swap of two neighbours is one edit, too.
size_t edit_distance(std::string_view a, std::string_view b);
// The known name with the smallest edit distance to `name`, case ignored; empty when none is near enough to be meant
// (more than two edits, or more than half of the letters).
std::string_view nearest(std::string_view name, std::span<const std::string_view> known);

}  // namespace pith
