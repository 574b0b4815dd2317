// text.cpp - pieces of texts, numbers as texts, and the nearest name by Levenshtein's distance.
#include "core/text.h"

#include <algorithm>
#include <charconv>
#include <utility>

namespace pith {
namespace {

constexpr std::string_view kSpaces = " \t\r\n\v\f";

}  // namespace

std::vector<std::string_view> split(std::string_view text, char separator) {
    std::vector<std::string_view> pieces;
    size_t begin = 0;
    for (size_t end = text.find(separator); end != std::string_view::npos; end = text.find(separator, begin)) {
        pieces.push_back(text.substr(begin, end - begin));
        begin = end + 1;
    }
    pieces.push_back(text.substr(begin));
    return pieces;
}

std::string_view trim(std::string_view text) {
    constexpr std::string_view kSpace = " \t\r\n";
    const size_t begin = text.find_first_not_of(kSpace);
    if (begin == std::string_view::npos) { return {}; }
    return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

std::string quoted(std::string_view text) {
    std::string result("'");
    result += text;
    result += '\'';
    return result;
}

std::string to_lower(std::string_view text) {
    std::string result(text);
    for (char & c : result) {
        if (c >= 'A' && c <= 'Z') { c = static_cast<char>(c - 'A' + 'a'); }
    }
    return result;
}

bool starts_with_space(std::string_view text) {
    return text.empty() || kSpaces.find(text.front()) != std::string_view::npos;
}

bool ends_in_space(std::string_view text) {
    return text.empty() || kSpaces.find(text.back()) != std::string_view::npos;
}

std::string without_controls(std::string_view text) {
    const auto byte_at = [text](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U; };
    std::string result;
    result.reserve(text.size());
    size_t n_left = 0;  // bytes that a character of UTF-8 still has
    for (size_t i = 0; i < text.size(); ++i) {
        const unsigned byte = byte_at(i);
        const bool is_inside = n_left > 0 && (byte & 0xC0U) == 0x80U;
        const bool begins_c1 = byte == 0xC2U && byte_at(i + 1) >= 0x80U && byte_at(i + 1) < 0xA0U;
        const bool is_lone_c1 = !is_inside && byte >= 0x80U && byte < 0xA0U;
        result += begins_c1 || is_lone_c1 || byte < 0x20U || byte == 0x7FU ? '?' : text[i];
        if (begins_c1) { ++i; }
        n_left = is_inside ? n_left - 1 : begins_c1 || byte < 0xC0U ? 0 : byte < 0xE0U ? 1 : byte < 0xF0U ? 2 : 3;
    }
    return result;
}

std::string list_of_numbers(std::span<const int> numbers) {
    const auto last = static_cast<int64_t>(numbers.size()) - 1;
    if (last > 0 && numbers.back() - numbers.front() == last) {
        return std::to_string(numbers.front()) + " to " + std::to_string(numbers.back());
    }
    std::vector<std::string> names;
    for (const int number : numbers) { names.push_back(std::to_string(number)); }
    return join(names, ", ");
}

std::string format_number(double number) {
    char buffer[64];
    const auto result = std::to_chars(buffer, buffer + sizeof buffer, number, std::chars_format::general);
    std::string text(buffer, result.ptr);
    // to_chars prefers "1e+06" where it is shorter: whole numbers are easier to read in full.
    if (text.find('e') != std::string::npos && number > -1e15 && number < 1e15) {
        const auto fixed = std::to_chars(buffer, buffer + sizeof buffer, number, std::chars_format::fixed);
        text.assign(buffer, fixed.ptr);
    }
    return text;
}

std::string with_commas(int64_t number) {
    std::string text = std::to_string(number);
    const size_t first = number < 0 ? 1 : 0;
    for (size_t at = text.size(); at > first + 3; at -= 3) { text.insert(at - 3, 1, ','); }
    return text;
}

// Three rows: two back, one back, this one.
size_t edit_distance(std::string_view a, std::string_view b) {
    std::vector<size_t> before(b.size() + 1);
    std::vector<size_t> last(b.size() + 1);
    std::vector<size_t> row(b.size() + 1);
    for (size_t j = 0; j <= b.size(); ++j) { row[j] = j; }
    for (size_t i = 1; i <= a.size(); ++i) {
        std::swap(before, last);
        std::swap(last, row);
        row[0] = i;
        for (size_t j = 1; j <= b.size(); ++j) {
            const bool same = a[i - 1] == b[j - 1];
            row[j] = std::min({row[j - 1] + 1, last[j] + 1, last[j - 1] + (same ? 0 : 1)});
            const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            if (swapped) { row[j] = std::min(row[j], before[j - 2] + 1); }
        }
    }
    return row[b.size()];
}

std::string_view nearest(std::string_view name, std::span<const std::string_view> known) {
    const std::string wanted = to_lower(name);
    std::string_view best;
    size_t best_distance = 3;
    for (const std::string_view candidate : known) {
        const size_t distance = edit_distance(wanted, to_lower(candidate));
        if (distance < best_distance && 2 * distance <= std::max(name.size(), candidate.size())) {
            best = candidate;
            best_distance = distance;
        }
    }
    return best;
}

}  // namespace pith
