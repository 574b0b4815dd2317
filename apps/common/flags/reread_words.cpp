// reread_words.cpp - which sessions want them.
#include "common/flags/reread_words.h"

#include "policy/auto_policy.h"
#include "text/reread_prompt.h"

namespace pith::app {

Status set_reread_words(const Tokenizer & tokenizer, bool uses_template, SessionOptions & options) {
    if (!may_read_again(options.policy, options.auto_may_reread)) { return {}; }
    PITH_ASSIGN_OR_RETURN(options.reread, reread_prompt(tokenizer, uses_template));
    return {};
}

}  // namespace pith::app
