// chat_frame.h - what a model's chat template puts around the texts of a conversation. Stage: text.
//
// The template is rendered around markers and split there, so that what goes in between stays byte for byte what it was.
// Errors: Tokenizer::apply_chat_template's; kUnsupported: it has no such place, or several.   Threads: const-safe.
#pragma once

#include <string>
#include <string_view>

#include "pith/text.h"

namespace pith {

// The text around a system prompt and one user message.
struct ChatFrame {
    std::string before_system;
    std::string before_user;  // after the system prompt, where there is one
    std::string after_user;   // up to where the answer begins
};
Result<ChatFrame> chat_frame(const Tokenizer & tokenizer, bool with_system);
// Where there is no template: an empty line between a system prompt and what follows, unless white space is there.
ChatFrame plain_frame(std::string_view system);

// What stands between an answer and the user message after it.
Result<std::string> between_turns(const Tokenizer & tokenizer);

}  // namespace pith
