// rouge.h - summaries against references by longest common subsequences, as two public programs compute it. Stage: benchmarks.
// Pure C++.   Threads: pure functions.   Cost: O(words of the prediction · words of the reference).
//
// rouge_l: pltrdy/rouge's summary-level, set-based Rouge-L (LongBench). Sentences end at every ".", words at white space, case
// and punctuation are kept. U = the set of all words in the subsequences of all sentence pairs; P = |U| / unique words of the
// prediction, R = |U| / unique words of the reference, F = 2PR / (P + R + 1e-8). A sentence of white space alone is one empty
// word. No sentence at all: 0.
// Differs: Python gives up on a pair of sentences with about a thousand words together (its recursion limit), and LongBench
//          then counts 0; here the pair is scored.
//
// rouge_lsum: Google's rougeLsum without stemming (InfiniteBench, through Hugging Face's evaluate). Sentences are lines, words
// are runs of a–z and 0–9 after lower-casing. For each reference line the union of its subsequences with all prediction lines
// is taken, and each hit uses up one occurrence on both sides. P and R over all words, F = 2PR / (P + R).
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace pith::benchmarks {

double rouge_l(std::string_view prediction, std::string_view reference);
double rouge_lsum(std::string_view prediction, std::string_view reference);

}  // namespace pith::benchmarks
