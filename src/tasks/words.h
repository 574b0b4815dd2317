// words.h - the words of the small worlds. The lists are short on purpose: a vocabulary of two thousand pieces holds each word
// as one piece, and an answer is few tokens. (word_lists.h has the many words of keys and lists.)
// Pure C++: no I/O.
#pragma once

#include <array>
#include <span>
#include <string_view>
#include <vector>

namespace pith::corpus::words {

using List = std::span<const std::string_view>;

extern const List kAdjectives;  // first half of a needle's key, and what fillers are like
extern const List kKeyNouns;    // second half of a needle's key; written after a hyphen, so without a space
extern const List kThings;      // a part of kKeyNouns: what people own, with a place, a price, a colour
extern const List kNames;
extern const List kTowns;
extern const List kRooms;
extern const List kColours;
extern const List kJobs;
extern const List kAnimals;
extern const List kActors;   // who acts in sentences that do not matter
extern const List kVerbs;    // "walked"
extern const List kPlaces;   // "by the river"
extern const List kTimes;    // "In the morning"
extern const List kClosers;  // short sentences that fill the last gap

// Words that may stand alone after a space, all different: lists to count, pairs to recall.
const std::vector<std::string_view> & single_words();

}  // namespace pith::corpus::words
