// grammar_choice.h - one grammar out of two: a text of the one, or of the other. Stage: text.
// Threads: pure function.   Cost: linear.
#pragma once

#include <string>
#include <string_view>

namespace pith {

// REQUIRES: both are GBNF that can be read, each with a rule called root.
std::string grammar_of_either(std::string_view one, std::string_view other);

}  // namespace pith
