// infinitebench_scores.cpp - each rule in the order of the original's statements.
#include "benchmarks/metrics/infinitebench_scores.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <optional>
#include <vector>

#include "benchmarks/metrics/unicode.h"

namespace pith::benchmarks {
namespace {

constexpr std::u32string_view kSeparators = U"\n:\"'.,?!{}";

bool has_word(std::u32string_view text, std::u32string_view word) {
    const std::u32string spaced = with_spaces_for(text, kSeparators);
    const auto words = split_words(spaced);
    return std::find(words.begin(), words.end(), word) != words.end();
}

// Runs of spaces (and of nothing else) become one.
std::u32string with_single_spaces(std::u32string_view text) {
    std::u32string out;
    for (const char32_t c : text) {
        if (c != U' ' || out.empty() || out.back() != U' ') { out += c; }
    }
    return out;
}

// Whether one of `answers` begins one character after the first prefix that occurs; nothing where none does.
std::optional<bool> answer_follows(std::u32string_view text, std::span<const std::u32string_view> prefixes,
                                   std::span<const std::u32string> answers) {
    for (const std::u32string_view prefix : prefixes) {
        const size_t at = text.find(prefix);
        if (at == std::u32string_view::npos) { continue; }
        const size_t after = at + prefix.size() + 1;
        if (text.size() < after) { return false; }
        const std::u32string_view rest = text.substr(after);
        return std::any_of(answers.begin(), answers.end(), [&](const auto & answer) { return rest.starts_with(answer); });
    }
    return std::nullopt;
}

std::vector<std::u32string> all_code_points(std::span<const std::string> texts) {
    std::vector<std::u32string> out;
    for (const std::string & text : texts) { out.push_back(code_points(text)); }
    return out;
}

bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

// The first match of \d+\.\d+|\d+.
std::string_view first_number(std::string_view text) {
    const size_t first = std::min(text.find_first_of("0123456789"), text.size());
    size_t end = first;
    while (end < text.size() && is_digit(text[end])) { ++end; }
    if (end > first && end + 1 < text.size() && text[end] == '.' && is_digit(text[end + 1])) {
        ++end;
        while (end < text.size() && is_digit(text[end])) { ++end; }
    }
    return text.substr(first, end - first);
}

double to_double(std::string_view text) {
    double value = NAN;
    std::from_chars(text.data(), text.data() + text.size(), value);
    return value;
}

std::string_view without_leading_zeros(std::string_view digits) {
    while (digits.size() > 1 && digits.front() == '0') { digits.remove_prefix(1); }
    return digits;
}

// What Python's int() makes of a word, as it would be printed; empty: no integer. Digits of other scripts are not read.
std::string python_integer(std::u32string_view word) {
    const bool negative = word.starts_with(U'-');
    if (negative || word.starts_with(U'+')) { word.remove_prefix(1); }
    std::string digits;
    bool after_digit = false;
    for (const char32_t c : word) {
        if (c == U'_' && after_digit) {
            after_digit = false;
            continue;
        }
        if (c < U'0' || c > U'9') { return ""; }
        digits += static_cast<char>(c);
        after_digit = true;
    }
    if (!after_digit) { return ""; }
    const std::string_view number = without_leading_zeros(digits);
    std::string text(number);
    return negative && number != "0" ? '-' + text : text;
}

}  // namespace

bool first_digits_are(std::string_view prediction, std::string_view reference) {
    const size_t first = std::min(prediction.find_first_of("0123456789"), prediction.size());
    size_t end = first;
    while (end < prediction.size() && is_digit(prediction[end])) { ++end; }
    return prediction.substr(first, end - first) == reference;
}

bool says_word(std::string_view prediction, std::string_view reference) {
    return has_word(code_points(prediction), code_points(reference));
}

bool says_name(std::string_view prediction, std::string_view reference) {
    return has_word(upper(code_points(prediction)), code_points(reference));
}

bool contains_any_case(std::string_view prediction, std::span<const std::string> references) {
    const std::u32string whole = upper(code_points(prediction));
    const std::u32string_view text = strip(whole);
    return std::any_of(references.begin(), references.end(), [&](const std::string & reference) {
        return text.find(upper(code_points(reference))) != std::u32string_view::npos;
    });
}

bool chooses(std::string_view prediction, std::span<const std::string> references) {
    constexpr std::u32string_view kLetters = U"ABCD";
    const std::u32string whole = code_points(prediction);
    const std::u32string_view said = strip(whole);
    const std::vector<std::u32string> right = all_code_points(references);
    const auto is_right = [&](std::u32string_view text) { return std::find(right.begin(), right.end(), text) != right.end(); };
    if (said.empty()) { return false; }
    if (kLetters.find(said[0]) != std::u32string_view::npos) { return is_right(said.substr(0, 1)); }
    if (is_right(said)) { return true; }
    const std::u32string text = with_single_spaces(with_spaces_for(said, U"\n\"'.,?!{}"));
    constexpr std::u32string_view kPrefixes[] = {U"answer is:", U"answer:", U"answer is", U"option is"};
    if (const auto follows = answer_follows(text, kPrefixes, right)) { return *follows; }
    for (const std::u32string_view word : split_words(text)) {
        if (kLetters.find(word) != std::u32string_view::npos) { return is_right(word); }
    }
    return false;
}

bool names_function(std::string_view prediction, std::span<const std::string> references) {
    const std::vector<std::u32string> right = all_code_points(references);
    const std::u32string whole = code_points(prediction);
    const std::u32string_view said = strip(whole);
    const std::u32string & letter = right.back();
    if (said.starts_with(letter + U".") || said.starts_with(letter + U":")) { return true; }
    std::u32string text = with_spaces_for(said, U"\n`'\"-*");
    for (const std::u32string_view word : {U"Option", U"option"}) { text = replace_all(text, word, U" "); }
    constexpr std::u32string_view kPrefixes[] = {U"answer is:", U"is:", U"answer:", U"correct option is:"};
    return answer_follows(with_single_spaces(text), kPrefixes, right).value_or(false);
}

bool last_word_is_number(std::string_view prediction, std::string_view reference) {
    const std::u32string spaced = with_spaces_for(code_points(prediction), U"\n.`'\":");
    const auto words = split_words(spaced);
    return !words.empty() && python_integer(words.back()) == reference;
}

double leading_numbers_share(std::string_view prediction, std::span<const std::string> references) {
    size_t n_right = 0;
    for (const std::string & reference : references) {
        const size_t first = prediction.find_first_of("0123456789");
        if (first == std::string_view::npos) { break; }
        prediction.remove_prefix(first);
        const size_t end = std::min(prediction.find_first_not_of("0123456789"), prediction.size());
        if (without_leading_zeros(prediction.substr(0, end)) != reference) { break; }
        prediction.remove_prefix(end);
        ++n_right;
    }
    return references.empty() ? 0 : static_cast<double>(n_right) / static_cast<double>(references.size());
}

bool first_number_is(std::string_view prediction, std::string_view reference, NumberRule rule) {
    const std::string_view number = first_number(prediction);
    if (number.empty()) { return false; }
    const bool reference_is_double = reference.find_first_of(".eE") != std::string_view::npos;
    if (reference_is_double) { return to_double(number) == to_double(reference); }
    if (rule == NumberRule::kTruncated) { return std::trunc(to_double(number)) == to_double(reference); }
    return without_leading_zeros(number) == reference;
}

}  // namespace pith::benchmarks
