// grammar_choice.h - one grammar out of two: a text of the one, or of the other; or behind a text. Stage: text.
// Threads: pure function.   Cost: linear.
#pragma once

#include <string>
#include <string_view>

namespace pith {

// REQUIRES: both are GBNF that can be read, each with a rule called root.
std::string grammar_of_either(std::string_view one, std::string_view other);
// begin: an expression, whose rules have names that begin with no "a-"; rules: these.
std::string grammar_behind(std::string_view begin, std::string_view rules, std::string_view grammar);

}  // namespace pith
