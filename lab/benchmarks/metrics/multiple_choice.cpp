// multiple_choice.cpp - see multiple_choice.h.
#include "benchmarks/metrics/multiple_choice.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <vector>

#include "benchmarks/metrics/unicode.h"

namespace pith::benchmarks {

size_t likeliest_choice(std::span<const double> log_probabilities) {
    return static_cast<size_t>(
        std::distance(log_probabilities.begin(), std::max_element(log_probabilities.begin(), log_probabilities.end())));
}

size_t likeliest_choice_per_character(std::span<const double> log_probabilities, std::span<const std::string> choices) {
    std::vector<double> per_character(log_probabilities.begin(), log_probabilities.end());
    for (size_t i = 0; i < per_character.size(); ++i) {
        std::string_view text = choices[i];
        if (text.starts_with(' ')) { text.remove_prefix(1); }
        per_character[i] /= static_cast<double>(code_points(text).size());
    }
    return likeliest_choice(per_character);
}

}  // namespace pith::benchmarks
