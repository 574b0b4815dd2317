// schema_writer.h - a JSON schema as rules of a grammar. Stage: text.
// Threads: pure function.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "pith/status.h"
#include "text/schema_reader.h"

namespace pith {

// Of a part of the document, or all of it: the rule `first` and those that it needs, whose names begin with the prefix; all use
// json_grammar_basics(). notes: as json_schema_rules() has them. Errors: kInvalidArgument. Throws what nlohmann throws where a
// keyword holds something else than JSON Schema says.
Result<std::string> schema_rules(const SchemaJson & document, const SchemaJson & part, const std::string & first,
                                 const std::string & prefix, RegularTexts & texts, std::vector<std::string> * notes);

// As json_schema_rules() of a text (json_grammar.h), of a part of a document that has been read. n_bytes: of its text.
Result<std::string> json_schema_rules(const SchemaJson & document, const SchemaJson & part, size_t n_bytes,
                                      const std::string & name, RegularTexts & texts, std::vector<std::string> * notes);

}  // namespace pith
