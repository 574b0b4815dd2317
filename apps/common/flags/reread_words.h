// reread_words.h - the words that ask for a text once more, where the policy reads it again.
#pragma once

#include "pith/session.h"
#include "pith/text.h"

namespace pith::app {

// Sets options.reread where the policy, or what `auto` may become, reads again; else nothing.
// Errors: those of reread_prompt().
Status set_reread_words(const Tokenizer & tokenizer, bool uses_template, SessionOptions & options);

}  // namespace pith::app
