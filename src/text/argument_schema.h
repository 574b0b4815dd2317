// argument_schema.h - what the JSON schema of a function's arguments says of each. Stage: text.
//
// Looser than what a grammar makes of it (schema_reader.h): what cannot be followed says nothing here.
// Threads: pure functions. Cost: linear in the schema, however often it points to its own places.
#pragma once

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "text/schema_reader.h"
#include "text/tool_calls.h"

namespace pith {

// Also those that the schema has behind $ref or in allOf.
struct ArgumentList {
    std::vector<std::pair<std::string, const SchemaJson *>> properties;  // parts of the schema, in its order
    std::set<std::string> required;
};
ArgumentList arguments_of(const SchemaJson & root);
// The properties that are texts, or null, and nothing else.
TextsOfFunction texts_of_schema(const SchemaJson & root);
// All that the schema, a part of `root`, lets stand there, where it lists that (enum, const, null; through references and
// branches). None: it does not.
std::vector<SchemaJson> values_of_schema(const SchemaJson & schema, const SchemaJson & root);

}  // namespace pith
