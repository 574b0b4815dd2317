// reread_prompt.h - the words that ask a model for a text once more (policies that read again, `reread`). Stage: text.
#pragma once

#include "pith/session.h"
#include "pith/text.h"

namespace pith {

// uses_template: the text stands in a user's message, so the repetition is what the model answers.
// Errors: those of chat_frame().   Threads: const-safe.
Result<RereadPrompt> reread_prompt(const Tokenizer & tokenizer, bool uses_template);

}  // namespace pith
