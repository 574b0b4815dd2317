// longbench_scores.cpp - see longbench_scores.h.
#include "benchmarks/metrics/longbench_scores.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "benchmarks/metrics/unicode.h"

namespace pith::benchmarks {

std::string_view first_line(std::string_view prediction) {
    const size_t first = std::min(prediction.find_first_not_of('\n'), prediction.size());
    prediction.remove_prefix(first);
    return prediction.substr(0, prediction.find('\n'));
}

double class_score(std::string_view prediction, std::string_view reference, std::span<const std::string> classes) {
    std::vector<std::string_view> found;
    for (const std::string & name : classes) {
        if (prediction.find(name) != std::string_view::npos) { found.push_back(name); }
    }
    for (size_t i = 0; i < found.size(); ++i) {
        const std::string_view name = found[i];
        if (name == reference || reference.find(name) == std::string_view::npos) { continue; }
        found.erase(std::find(found.begin(), found.end(), name));  // and i moves on over the one that came into its place
    }
    const bool right = std::find(found.begin(), found.end(), reference) != found.end();
    return right ? 1.0 / static_cast<double>(found.size()) : 0.0;
}

double number_share(std::string_view prediction, std::string_view reference) {
    const std::u32string text = code_points(prediction);
    const std::u32string right = code_points(reference);
    const auto numbers = digit_runs(text);
    if (numbers.empty()) { return 0; }
    const auto n_right = std::count(numbers.begin(), numbers.end(), right);
    return static_cast<double>(n_right) / static_cast<double>(numbers.size());
}

std::optional<std::string> paragraph_number(std::string_view reference, std::u32string_view word) {
    const std::u32string text = code_points(reference);
    for (size_t at = text.find(word); at != std::u32string::npos; at = text.find(word, at + 1)) {
        size_t end = at + word.size();
        while (end < text.size() && is_decimal(text[end])) { ++end; }
        if (end > at + word.size()) {
            return to_utf8(std::u32string_view(text).substr(at + word.size(), end - at - word.size()));
        }
    }
    return std::nullopt;
}

std::optional<char> correct_letter(std::string_view prediction) {
    std::string text(prediction);
    std::erase(text, '*');
    for (const std::string_view open : {"(", ""}) {
        const std::string said = std::string("The correct answer is ").append(open);
        for (size_t at = text.find(said); at != std::string::npos; at = text.find(said, at + 1)) {
            const std::string_view rest = std::string_view(text).substr(at + said.size());
            const bool letter = !rest.empty() && rest[0] >= 'A' && rest[0] <= 'D';
            if (letter && (open.empty() || rest.substr(1).starts_with(')'))) { return rest[0]; }
        }
    }
    return std::nullopt;
}

}  // namespace pith::benchmarks
