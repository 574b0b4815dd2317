// container_grammar.h - arrays and objects as expressions of a grammar, made of those of their items and properties. Stage:
// text. Pure C++. Threads: one at a time with the same rules. A `most` below 0 says that there is no end; an empty expression
// that nothing fits.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "text/regular_grammar.h"

namespace pith {

struct PropertyRule {
    std::string pair;  // name, colon and value
    bool must = false;
};

// "{least,most}" behind what is repeated.
std::string repetition(int64_t least, int64_t most);

// The first items, each of its own kind, and others behind them.   other: empty: there are none.
std::string array_expression(const std::vector<std::string> & first, const std::string & other, int64_t least, int64_t most,
                             GrammarRules & rules);
// Each of the values at most once. A rule for each set of them.
std::string unique_array_expression(const std::vector<std::string> & values, int64_t least, int64_t most, GrammarRules & rules);
// Properties in order, and others behind them, of which one counts as different from all else.
// Cost: a rule for each property, and for each count that it can be at.
std::string object_expression(const std::vector<PropertyRule> & properties, const std::string & other, int64_t least,
                              int64_t most, GrammarRules & rules);

}  // namespace pith
