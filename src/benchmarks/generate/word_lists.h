// word_lists.h - plain English words for needles and lists: what the generators draw keys and entries from. Stage: benchmarks.
// Pure C++.
//
// RULER draws from the wonderwords package; these lists are the project's own and shorter. All are lower case, a to z, no word
// twice. Threads: const after the first call.
#pragma once

#include <span>
#include <string_view>
#include <vector>

namespace pith::benchmarks {

std::span<const std::string_view> adjectives();
std::span<const std::string_view> nouns();
std::span<const std::string_view> verbs();

// The three together, each word once, sorted.
std::span<const std::string_view> common_words();

}  // namespace pith::benchmarks
