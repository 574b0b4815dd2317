// jinja_strings.cpp - characters, cuts and slices.
#include "text/jinja_strings.h"

#include <algorithm>

namespace pith::jinja {
namespace {

constexpr const char * kWhite = " \t\n\r\f\v";

size_t length_of_character(unsigned char first) {
    if (first < 0x80U) { return 1; }
    if (first >= 0xF0U) { return 4; }
    if (first >= 0xE0U) { return 3; }
    return first >= 0xC0U ? 2 : 1;
}

// From the first on, or from the last: the cuts are at the same places, in the other order.
std::vector<std::string> split_at(const std::string & text, const std::string & separator, int64_t most, bool from_end) {
    std::vector<std::string> parts;
    size_t begin = 0;
    size_t end = text.size();
    while (most < 0 || std::ssize(parts) < most) {
        const size_t length = end - begin;
        const size_t at = from_end
                              ? (length < separator.size() ? std::string::npos : text.rfind(separator, end - separator.size()))
                              : text.find(separator, begin);
        if (at == std::string::npos) { break; }
        if (from_end) {
            parts.push_back(text.substr(at + separator.size(), end - at - separator.size()));
            end = at;
        } else {
            parts.push_back(text.substr(begin, at - begin));
            begin = at + separator.size();
        }
    }
    parts.push_back(text.substr(begin, end - begin));
    if (from_end) { std::ranges::reverse(parts); }
    return parts;
}

std::vector<std::string> split_at_white(const std::string & text, int64_t most, bool from_end) {
    std::vector<std::string> parts;
    size_t begin = text.find_first_not_of(kWhite);
    size_t end = begin == std::string::npos ? 0 : text.find_last_not_of(kWhite) + 1;
    while (begin != std::string::npos && begin < end) {
        const bool is_last = most >= 0 && std::ssize(parts) >= most;
        if (from_end) {
            const size_t white = is_last ? std::string::npos : text.find_last_of(kWhite, end - 1);
            const bool is_first = white == std::string::npos || white < begin;
            const size_t from = is_last ? 0 : is_first ? begin : white + 1;  // what is not cut keeps its white space
            parts.push_back(text.substr(from, end - from));
            if (is_first) { break; }
            end = text.find_last_not_of(kWhite, from - 1) + 1;
        } else {
            const size_t to = is_last ? text.size() : std::min(end, text.find_first_of(kWhite, begin));
            parts.push_back(text.substr(begin, to - begin));
            begin = text.find_first_not_of(kWhite, to);
        }
    }
    if (from_end) { std::ranges::reverse(parts); }
    return parts;
}

}  // namespace

std::vector<std::string> characters(const std::string & text) {
    std::vector<std::string> all;
    for (size_t at = 0; at < text.size();) {
        const size_t length = std::min(length_of_character(static_cast<unsigned char>(text[at])), text.size() - at);
        all.push_back(text.substr(at, length));
        at += length;
    }
    return all;
}

std::vector<std::string> split(const std::string & text, const std::string * separator, int64_t most, bool from_end) {
    if (separator == nullptr) { return split_at_white(text, most, from_end); }
    return split_at(text, *separator, most, from_end);
}

void clamp_slice(int64_t length, int64_t step, int64_t & start, int64_t & end) {
    const int64_t low = step < 0 ? -1 : 0;
    const int64_t high = step < 0 ? length - 1 : length;
    start = std::max(low, std::min(start, high));
    end = std::max(low, std::min(end, high));
}

}  // namespace pith::jinja
