// json_grammar.h - JSON schemas as parts of a larger grammar (GBNF). Stage: text.
// Threads: pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "pith/status.h"
#include "text/regular_texts.h"

namespace pith {

// The text, in quotation marks, as a grammar has it.
std::string grammar_literal(std::string_view text);

// The rule `name` for the JSON values that fit the schema, and the rules that it needs; their names begin with "name-". All
// use those of json_grammar_basics(), which the grammar must have once.   name: letters, digits and '-'.
// texts: where patterns are worked out; schemas of one grammar share it, and the work that it may cost.
// notes: what cannot be followed is left out, and a line about each is written there; nullptr: it is an error.
// Errors: as grammar_of_json_schema (pith/text.h).
Result<std::string> json_schema_rules(std::string_view schema, const std::string & name, RegularTexts & texts,
                                      std::vector<std::string> * notes);

// White space (ws), and JSON of any form: value, object, array, string, number, boolean, null.
std::string_view json_grammar_basics();

}  // namespace pith
