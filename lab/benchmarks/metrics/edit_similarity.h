// edit_similarity.h - how alike two lines of code are. Stage: benchmarks.
// Pure C++.   Threads: pure functions.
//
// ratio = 2 · matched / (|a| + |b|) in characters, where matched sums the blocks of Ratcliff and Obershelp: the longest common
// run, then the same to its left and to its right. In a b of 200 characters or more, a character found more than |b| / 100 + 1
// times in it starts no run.
// Source: LongBench's code_sim_score: fuzzywuzzy's ratio over Python's difflib. (LongBench lists fuzzywuzzy alone, without
//         python-Levenshtein, whose ratio counts the longest common subsequence and is never smaller.)
#pragma once

#include <string_view>

namespace pith::benchmarks {

// difflib's SequenceMatcher(None, a, b).ratio(); two empty texts: 1.
double sequence_ratio(std::u32string_view a, std::u32string_view b);

// Whole per cents, halves to even; equal texts 100, one empty text 0.
int fuzz_ratio(std::string_view a, std::string_view b);

// The prediction's first line without `, # or //, against the reference: fuzz_ratio / 100.
double code_similarity(std::string_view prediction, std::string_view reference);

}  // namespace pith::benchmarks
