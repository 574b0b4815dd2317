// reread_prompt.cpp - a request to repeat, and what a chat template puts between a request and its answer.
#include "text/reread_prompt.h"

#include "text/chat_frame.h"

namespace pith {
namespace {

constexpr const char * kFirst = "\n\nWrite the text above once more, word for word.";
constexpr const char * kNext = "\n\nWrite the text above once more, word for word, going on from here:";
constexpr const char * kPlainAnswer = "\n\n";

}  // namespace

Result<RereadPrompt> reread_prompt(const Tokenizer & tokenizer, bool uses_template) {
    std::string answer = kPlainAnswer;
    if (uses_template) {
        PITH_ASSIGN_OR_RETURN(const ChatFrame frame, chat_frame(tokenizer, /*with_system=*/false));
        answer = frame.after_user;
    }
    RereadPrompt prompt;
    PITH_ASSIGN_OR_RETURN(prompt.first, tokenizer.encode(kFirst, false, false));
    PITH_ASSIGN_OR_RETURN(prompt.next, tokenizer.encode(kNext, false, false));
    PITH_ASSIGN_OR_RETURN(prompt.behind, tokenizer.encode(answer, false, true));
    return prompt;
}

}  // namespace pith
