// messages_request.h - what the bodies of /v1/messages and /v1/messages/count_tokens ask for: Anthropic's names. Stage: serve.
//
// Text, tool_use, tool_result and thinking blocks become the messages that a chat template knows. Fields that Anthropic does
// not have are those of /v1/chat/completions (completion_request.h): kv_policy, kv_budget, kv_pin, seed, min_p … Errors:
// kInvalidArgument, kUnsupported (images, documents, tools that run elsewhere).   Threads: pure functions.
#pragma once

#include <optional>

#include "serve/shapes/api_error.h"
#include "serve/shapes/completion_request.h"

namespace pith::serve {

// A conversation that the server is to keep: clients send all of it again, where they are refused in these words.
std::optional<ApiError> refused_thread(const Json & body);

Result<ChatRequest> parse_messages_request(const Json & body, const CompletionOptions & defaults, const Tokenizer & tokenizer);
// The same without what only an answer needs.
Result<ChatRequest> parse_count_request(const Json & body, const Tokenizer & tokenizer);

}  // namespace pith::serve
