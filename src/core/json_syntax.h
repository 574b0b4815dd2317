// json_syntax.h - where a text stops being JSON, and what belongs there. Stage: set-up.
// Pure C++. Threads: const-safe. Cost: one pass, no recursion.
//
// For what people write or download: the JSON library's own messages name its insides, and whoever copies, compares or prints a
// value that is nested without end runs out of stack, time where it has names without end (each is looked for among all before
// it), and memory where it has values without end: "[]," is three bytes, and fifty in memory.
// Source: RFC 8259. Not looked at: whether strings are UTF-8, how large a number is.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

namespace pith {

inline constexpr int kMostJsonDepth = 200;
inline constexpr int kMostJsonNames = 4096;  // of one object

// Of a whole text. Lists of tokens are long, so numbers are counted by themselves.
struct JsonLimits {
    int64_t most_values = std::numeric_limits<int64_t>::max();  // all that are no numbers, and the names of objects
    int64_t most_numbers = std::numeric_limits<int64_t>::max();
};

// "line 3, byte 7: ',' or '}' belongs here, not 'x'"; bytes of the line, from 1. Empty: it is JSON, nested no deeper than
// kMostJsonDepth, no object of it has more than kMostJsonNames names, and all of it not more than the limits say.
std::string json_problem(std::string_view text, const JsonLimits & limits = {});

}  // namespace pith
