// utf8.cpp - checks UTF-8 byte by byte. Stage: text.
#include "text/utf8.h"

#include <algorithm>
#include <cstdint>

namespace pith {
namespace {

// Bytes of the character that this lead byte opens; 0: no lead byte.
int length_from_lead(uint8_t lead) {
    if (lead < 0x80) { return 1; }
    if (lead < 0xC2) { return 0; }  // continuation, or an overlong form of ASCII
    if (lead < 0xE0) { return 2; }
    if (lead < 0xF0) { return 3; }
    return lead < 0xF5 ? 4 : 0;
}

// The second byte alone rules out overlong forms, surrogates and what lies above U+10FFFF.
bool second_fits(uint8_t lead, uint8_t second) {
    switch (lead) {
        case 0xE0:
            return second >= 0xA0 && second <= 0xBF;
        case 0xED:
            return second >= 0x80 && second <= 0x9F;
        case 0xF0:
            return second >= 0x90 && second <= 0xBF;
        case 0xF4:
            return second >= 0x80 && second <= 0x8F;
        default:
            return second >= 0x80 && second <= 0xBF;
    }
}

// Bytes from `text[at]` on that are valid so far for one character of `length` bytes.
int valid_bytes(std::string_view text, size_t at, int length) {
    int n = 1;
    while (n < length && at + static_cast<size_t>(n) < text.size()) {
        const auto byte = static_cast<uint8_t>(text[at + static_cast<size_t>(n)]);
        const bool fits = n == 1 ? second_fits(static_cast<uint8_t>(text[at]), byte) : (byte & 0xC0U) == 0x80U;
        if (!fits) { break; }
        ++n;
    }
    return n;
}

}  // namespace

std::optional<size_t> invalid_utf8_offset(std::string_view text) {
    for (size_t at = 0; at < text.size();) {
        const int length = length_from_lead(static_cast<uint8_t>(text[at]));
        if (length == 0 || valid_bytes(text, at, length) < length) { return at; }
        at += static_cast<size_t>(length);
    }
    return std::nullopt;
}

size_t incomplete_utf8_tail(std::string_view text) {
    for (size_t back = 1; back <= std::min<size_t>(3, text.size()); ++back) {
        const size_t at = text.size() - back;
        const int length = length_from_lead(static_cast<uint8_t>(text[at]));
        if (length == 0) { continue; }  // perhaps a continuation: look further back for its lead
        const bool waits = length > static_cast<int>(back) && valid_bytes(text, at, length) == static_cast<int>(back);
        return waits ? back : 0;
    }
    return 0;
}

}  // namespace pith
