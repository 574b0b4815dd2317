// schema_writer.h - a JSON schema as rules of a grammar. Stage: text.
// Threads: pure function.
#pragma once

#include <string>
#include <vector>

#include "pith/status.h"
#include "text/schema_reader.h"

namespace pith {

// The rule `first` and those that it needs, whose names begin with the prefix; all use json_grammar_basics().
// notes: as json_schema_rules() has them. Errors: kInvalidArgument. Throws what nlohmann throws where a keyword holds something
// else than JSON Schema says.
Result<std::string> schema_rules(const SchemaJson & document, const std::string & first, const std::string & prefix,
                                 RegularTexts & texts, std::vector<std::string> * notes);

}  // namespace pith
