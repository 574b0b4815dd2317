// infinitebench_scores.h - InfiniteBench's retrieval, choice, dialogue, mathematics and code scores. Stage: benchmarks.
// Pure C++.   Threads: pure functions.
// Source: InfiniteBench, src/compute_scores.py; what SCBench (MInference, scbench/compute_scores.py) changed is here, too.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace pith::benchmarks {

// The first run of ASCII digits is the reference.
bool first_digits_are(std::string_view prediction, std::string_view reference);

// The reference is a word of the prediction; : " ' . , ? ! { } and line breaks separate words.
bool says_word(std::string_view prediction, std::string_view reference);

// The same with the prediction in capitals; the reference stays as it is written ("Remo" is never found, "ACE" is).
bool says_name(std::string_view prediction, std::string_view reference);

// One of the references is in the prediction, both in capitals (SCBench).
bool contains_any_case(std::string_view prediction, std::span<const std::string> references);

// The letter rules of longbook_choice_eng; `references` are the right option's text and its letter. In this order: a prediction
// that begins with A–D is that letter; one that is a reference is right; after "answer is:", "answer:", "answer is", "option
// is" a reference must follow at once (one character between); else the first word that is a piece of "ABCD" (also "BC") must
// be a reference.
bool chooses(std::string_view prediction, std::span<const std::string> references);

// The rules of code_debug: the prediction begins with "C." or "C:", or the letter or the function's name follows (one character
// between) the first of "answer is:", "is:", "answer:", "correct option is:" that occurs.
// REQUIRES: `references` are the function's name and the letter.
bool names_function(std::string_view prediction, std::span<const std::string> references);

// code_run: the last word is the reference, an integer, as Python's int() reads it (a sign, digits, single underscores between
// them); line breaks and . ` ' " : separate words.
bool last_word_is_number(std::string_view prediction, std::string_view reference);

// math_calc: of the reference's numbers, the share that the prediction's runs of ASCII digits give before the first that
// differs. No run has a sign, so that a negative number ends the count. (For GPT-4's answers, which repeat the expression's
// first number, InfiniteBench's program drops the first run; here nobody knows who answered.)
double leading_numbers_share(std::string_view prediction, std::span<const std::string> references);

enum class NumberRule {
    kWhole,      // InfiniteBench: all of it is the integer; "88.5" for 88 is wrong (and stops InfiniteBench's program)
    kTruncated,  // SCBench: without its fraction it is the integer
};
// The first number (12 or 12.5; no sign) is the reference: an integer, or with a point or an exponent a double.
bool first_number_is(std::string_view prediction, std::string_view reference, NumberRule rule);

}  // namespace pith::benchmarks
