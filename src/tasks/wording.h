// wording.h - RULER's sentences: what the tasks say and ask, and training documents never do (training_wording.h).
// Pure C++: no I/O.
// Source: RULER (Hsieh et al., 2024), scripts/data/synthetic/constants.py: niah, variable_tracking, common_words_extraction.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tasks/random.h"

namespace pith::corpus {

// n keys "adjective-noun", no word in two of them. REQUIRES: n <= 40.
std::vector<std::string> draw_needle_keys(Random & random, int n);
// n different numbers of 7 digits.
std::vector<std::string> draw_needle_values(Random & random, int n);

// "One of the special magic numbers for " key " is: " value "."
std::string needle_sentence(std::string_view key, std::string_view value);
// "Some special magic numbers are hidden …\n"; plural when several values are asked for.
std::string needle_preamble(bool plural);
// "\nWhat is the special magic number for …?"
std::string needle_question(std::string_view key, bool plural);
// " The special magic number for … mentioned in the provided text is"
std::string needle_prefix(std::string_view key, bool plural);

// n different names of 5 capitals.
std::vector<std::string> draw_variable_names(Random & random, int n);
inline constexpr std::string_view kTrackingPreamble =
    "Memorize and track the chain(s) of variable assignment hidden in the following text.\n\n";
std::string tracking_question(std::string_view value);
std::string tracking_prefix(int n_variables, std::string_view value);

inline constexpr std::string_view kCommonPreamble =
    "Below is a numbered list of words. In these words, some appear more often than others. Memorize the ones that appear "
    "most often.\n";
std::string common_question(int n_words);
std::string common_prefix(int n_words);
// "1. word 2. word …"
std::string numbered_list(std::span<const std::string_view> items);

inline constexpr std::string_view kFactsPreamble = "Read the following text.\n";
std::string fact_question(std::string_view question);  // "\nQuestion: …"
inline constexpr std::string_view kFactPrefix = " Answer:";

// " a, b, c." - how answers are written: what a model should continue with.
std::string completion_of(std::span<const std::string> answers);
// " a b c" - how RULER's worked example writes the names of variables.
std::string names_of(std::span<const std::string> names);

}  // namespace pith::corpus
