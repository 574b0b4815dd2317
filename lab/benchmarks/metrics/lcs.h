// lcs.h - the longest common subsequence of two word lists, read back from its table. Stage: benchmarks.
// Pure C++.   Threads: pure functions.   Cost: O(n · m) time and 4 · n · m bytes.
//
// Several subsequences may be longest; which one is found decides what a union over sentences counts. Going back from the end,
// a common word is taken at once; otherwise the way with the longer rest is followed, and on a tie the one that `Tie` names.
// Source: pltrdy/rouge goes back in b on a tie, Google's rouge_scorer in a.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace pith::benchmarks {

enum class Tie { kBackInA, kBackInB };

// Ascending indices into `a`.
std::vector<size_t> longest_common_subsequence(std::span<const std::u32string> a, std::span<const std::u32string> b, Tie tie);

}  // namespace pith::benchmarks
