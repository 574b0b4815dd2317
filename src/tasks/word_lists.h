// word_lists.h - plain English words: what needles, lists and keys are drawn from, here and in the benchmarks.
// Pure C++.
//
// RULER draws from the wonderwords package; these lists are the project's own and shorter. All are lower case, a to z, no word
// twice. Threads: const after the first call.
#pragma once

#include <span>
#include <string_view>
#include <vector>

namespace pith::corpus {

std::span<const std::string_view> adjectives();
std::span<const std::string_view> nouns();
std::span<const std::string_view> verbs();

// The three together, each word once, sorted.
std::span<const std::string_view> common_words();

}  // namespace pith::corpus
