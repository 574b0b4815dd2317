// utf8.h - is it UTF-8, and where does it stop being so. Stage: text.
// Pure C++. Threads: const-safe. Cost: one pass.
// Source: RFC 3629 (no overlong forms, no surrogates, nothing above U+10FFFF).
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace pith {

// Offset of the first byte that is no part of a whole, valid character; nothing when all is valid.
std::optional<size_t> invalid_utf8_offset(std::string_view text);

// Of a character, by its first byte. REQUIRES: of UTF-8; of a byte inside of one it is 1.
constexpr size_t character_bytes(char first) {
    const auto byte = static_cast<unsigned char>(first);
    return byte < 0xC0 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

// Bytes behind a character's first one.
constexpr bool is_inside_character(char byte) {
    return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U;
}

// How many of the first `most` bytes are whole characters.
constexpr size_t whole_characters(std::string_view text, size_t most) {
    if (text.size() <= most) { return text.size(); }
    while (most > 0 && is_inside_character(text[most])) { --most; }
    return most;
}

// How many bytes at the end are the beginning of a character whose other bytes have not come yet (0 … 3).
size_t incomplete_utf8_tail(std::string_view text);

}  // namespace pith
