// completion_options.h - the fields of a request that chat and text completions have in common. Stage: serve.
#pragma once

#include "serve/shapes/completion_request.h"
#include "serve/shapes/fields.h"

namespace pith::serve {

// Checks a list of texts that are searched for while an answer is written (stop texts, DRY's sequence breakers). The search
// runs at every token, so a request with many or long texts would slow down everybody's answers. name: the field that holds
// them, for the message. Errors: kInvalidArgument: more than 64 texts, or one of more than 4,096 bytes.
Status check_texts(std::string_view name, const std::vector<std::string> & texts);

// The answer is a JSON value that fits the schema.   name: the field that holds it.
// Errors: kInvalidArgument: no schema; a keyword that is not understood.
Status follow_schema(const Json & schema, const std::string & name, CompletionOptions & options);
// The answer has the form that `format` asks for: {"type": "text"}, "json_object", or "json_schema" with a "schema" beside it.
// name: the field that holds it. Errors: kInvalidArgument: another type; a form beside `grammar` or `json_schema` of the same
// request; those of follow_schema().
Status follow_format(Fields & fields, const Json & format, const std::string & name, CompletionOptions & options);
// A call that must be made and a grammar of the client's own exclude each other. Errors: kInvalidArgument.
Status check_one_form(const ChatRequest & request);

// Sets in `options` what the request's body gives, and leaves the rest as it is. Call it after all other fields have been read:
// it refuses names that nobody has read, as misspelt.
Status read_options(Fields & fields, const Tokenizer & tokenizer, CompletionOptions & options);

}  // namespace pith::serve
