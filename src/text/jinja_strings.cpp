// jinja_strings.cpp - slices and cuts.
#include "text/jinja_strings.h"

#include <algorithm>

#include "text/utf8.h"

namespace pith::jinja {
namespace {

constexpr const char * kWhite = " \t\n\r\f\v";

// Where the next character begins.
size_t behind(const std::string & text, size_t at) {
    return std::min(at + character_bytes(text[at]), text.size());
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

int64_t length(const std::string & text) {
    int64_t n = 0;
    for (size_t at = 0; at < text.size(); at = behind(text, at)) { ++n; }
    return n;
}

std::string slice(const std::string & text, int64_t start, int64_t end, int64_t step) {
    if (step == 1) {
        size_t from = 0;
        for (int64_t i = 0; i < start; ++i) { from = behind(text, from); }
        size_t to = from;
        for (int64_t i = start; i < end; ++i) { to = behind(text, to); }
        return text.substr(from, to - from);
    }
    std::vector<size_t> begins;
    for (size_t at = 0; at < text.size(); at = behind(text, at)) { begins.push_back(at); }
    std::string out;
    for (int64_t i = start; step > 0 ? i < end : i > end; i += step) {
        const size_t at = begins[static_cast<size_t>(i)];
        out += text.substr(at, behind(text, at) - at);
    }
    return out;
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
