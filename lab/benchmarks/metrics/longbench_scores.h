// longbench_scores.h - LongBench's classes, counts and paragraph numbers. Stage: benchmarks.
// Pure C++.   Threads: pure functions.   Source: LongBench, metrics.py and eval.py.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace pith::benchmarks {

// What few-shot tasks (trec, triviaqa, samsum) score: the first line after leading line breaks.
std::string_view first_line(std::string_view prediction);

// 1 / n when `reference` is among the n classes that occur in the prediction, else 0. Classes that are parts of the reference's
// name, but not the reference, are taken out of the list while the same list is gone through, so that the class after each one
// taken out is not looked at.
double class_score(std::string_view prediction, std::string_view reference, std::span<const std::string> classes);

// Share of the prediction's numbers (runs of digits, compared as text) that are the reference; 0 without a number.
double number_share(std::string_view prediction, std::string_view reference);

// The digits of the first "Paragraph 12" in a reference; in Chinese of the first "段落12".
std::optional<std::string> paragraph_number(std::string_view reference, std::u32string_view word = U"Paragraph ");

// LongBench v2: the letter in "The correct answer is (B)", else in "The correct answer is B"; asterisks are ignored.
std::optional<char> correct_letter(std::string_view prediction);

}  // namespace pith::benchmarks
