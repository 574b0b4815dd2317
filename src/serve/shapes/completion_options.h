// completion_options.h - the fields that chat and text completions have in common. Stage: serve.
#pragma once

#include "serve/shapes/completion_request.h"
#include "serve/shapes/fields.h"

namespace pith::serve {

// Errors: kInvalidArgument: so many texts that looking for them would hold up other answers. name: of the field.
// Texts that are looked for while an answer is written: few, and none of them long.
Status check_texts(std::string_view name, const std::vector<std::string> & stops);

// Changes what the body says. Last of all reads: the spelling of all names is checked.
Status read_options(Fields & fields, const Tokenizer & tokenizer, CompletionOptions & options);

}  // namespace pith::serve
