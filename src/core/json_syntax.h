// json_syntax.h - where a text stops being JSON, and what belongs there. Stage: set-up.
// Pure C++. Threads: const-safe. Cost: one pass, no recursion.
//
// For what people write or download: the JSON library's own messages name its insides, and whoever copies, compares or prints a
// value that is nested without end runs out of stack, and time where it has names without end: each is looked for among all
// before it.
// Source: RFC 8259. Not looked at: whether strings are UTF-8, how large a number is.
#pragma once

#include <string>
#include <string_view>

namespace pith {

inline constexpr int kMostJsonDepth = 200;
inline constexpr int kMostJsonNames = 4096;  // of one object

// "line 3, byte 7: ',' or '}' belongs here, not 'x'"; bytes of the line, from 1. Empty: it is JSON, nested no deeper than
// kMostJsonDepth, and no object of it has more than kMostJsonNames names.
std::string json_problem(std::string_view text);

}  // namespace pith
