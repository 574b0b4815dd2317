// argument_schema.h - what the JSON schema of a function's arguments says of each. Stage: text.
//
// Looser than what a grammar makes of it (schema_reader.h): what cannot be followed says nothing here.
// Threads: pure functions. Cost: linear in the schema, however often it points to its own places.
#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "text/tool_calls.h"

namespace pith {

// "properties" and "required" of the arguments, also where the schema has them behind $ref or in allOf.
nlohmann::ordered_json object_schema(const nlohmann::ordered_json & root);
// The properties that are texts, or null, and nothing else.
TextsOfFunction texts_of_schema(const nlohmann::ordered_json & root);
// All that the schema, a part of `root`, lets stand there, where it lists that (enum, const, null; through references and
// branches). None: it does not.
std::vector<nlohmann::ordered_json> values_of_schema(const nlohmann::ordered_json & schema,
                                                     const nlohmann::ordered_json & root);

}  // namespace pith
