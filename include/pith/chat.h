// chat.h - conversations as JSON.
#pragma once

#include <string_view>
#include <vector>

#include "pith/status.h"
#include "pith/text.h"

namespace pith {

// A JSON array of messages as OpenAI's: [{"role": "user", "content": "Hello"}, …], with "reasoning_content", "tool_calls",
// "tool_call_id" and "name" where they have them. A content may be null, or a list of parts of type "text".
// Errors: kInvalidArgument: names the message and what is wrong with it.
Result<std::vector<ChatMessage>> chat_messages_of_json(std::string_view json);

}  // namespace pith
