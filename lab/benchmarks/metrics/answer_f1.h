// answer_f1.h - how many of an answer's words are the reference's: the F1 of question answering. Stage: benchmarks.
// Pure C++.   Threads: pure functions.
//
//   English  lower case, ASCII punctuation dropped, the words a, an, the dropped, split on white space
//   Chinese  lower case, ASCII and Chinese punctuation and white space dropped, single characters
// P and R over the two bags of words or characters, F = 2PR / (P + R); 0 when nothing is shared.
// Source: LongBench's metrics.py and InfiniteBench's compute_scores.py, whose English F1 is the same; the Chinese one is
//         InfiniteBench's.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace pith::benchmarks {

double answer_f1(std::string_view prediction, std::string_view reference);
double character_f1(std::string_view prediction, std::string_view reference);

// The best over the references; 0 without any.
double best_answer_f1(std::string_view prediction, std::span<const std::string> references);
double best_character_f1(std::string_view prediction, std::span<const std::string> references);

// F1 over two bags of tokens; 0 when nothing is shared.
double bag_f1(std::vector<std::u32string> prediction, std::vector<std::u32string> reference);
// The tokens without their white space, ASCII and Chinese punctuation; those of nothing else are gone.
std::vector<std::u32string> without_punctuation(const std::vector<std::u32string> & tokens);

// What answer_f1 compares: "The  Eiffel-Tower!" → "eiffeltower".
std::u32string normalized_answer(std::string_view text);

}  // namespace pith::benchmarks
