// chinese.h - how much of a Chinese answer is the reference's, without a dictionary of words. Stage: benchmarks.
// Pure C++.   Threads: pure functions.
//
// A token is one character, or a run of ASCII letters and digits.
//   character_token_f1   F1 over the two bags of tokens, in lower case, without ASCII and Chinese punctuation and white space
//   character_rouge_l    rouge_l of the tokens with spaces between them, as they are written
// Source:   LongBench's qa_f1_zh_score and rouge_zh_score.
// Differs:  there the tokens are words as jieba cuts them, which takes its dictionary and its statistics. A character is more
//           easily met by chance than a word: scores are higher here, and not comparable with published ones.
#pragma once

#include <string_view>

namespace pith::benchmarks {

double character_token_f1(std::string_view prediction, std::string_view reference);
double character_rouge_l(std::string_view prediction, std::string_view reference);

}  // namespace pith::benchmarks
