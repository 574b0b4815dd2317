// reread_words.cpp - which sessions want them.
#include "common/flags/reread_words.h"

#include "policy/auto_policy.h"
#include "policy/policy.h"
#include "text/reread_prompt.h"

namespace pith::app {

Status set_reread_words(const Tokenizer & tokenizer, bool uses_template, SessionOptions & options) {
    bool rereads = options.auto_may_reread;
    if (!is_auto(options.policy)) {
        PITH_ASSIGN_OR_RETURN(const Policy policy, Policy::parse(options.policy));
        rereads = policy.rereads();
    }
    if (rereads) { PITH_ASSIGN_OR_RETURN(options.reread, reread_prompt(tokenizer, uses_template)); }
    return {};
}

}  // namespace pith::app
