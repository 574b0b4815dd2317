// responses_request.h - what the body of /v1/responses asks for: OpenAI's names. Stage: serve.
//
// Items of input become the messages that a chat template knows; tools become functions. Nothing is stored, so what speaks of
// an earlier response is refused. Fields that OpenAI does not have here are those of /v1/chat/completions
// (completion_request.h): kv_policy, kv_budget, kv_pin, seed, min_p … Errors: kInvalidArgument, kUnsupported (images, files,
// items of tools that run elsewhere).   Threads: pure functions.
#pragma once

#include <set>
#include <string>

#include "serve/shapes/completion_request.h"

namespace pith::serve {

struct ResponsesRequest {
    ChatRequest chat;
    Json told = Json::object();             // what the reply tells of the request again: tools, tool_choice, text …
    std::set<std::string> tools_of_others;  // types of tools that OpenAI's own servers run: the model is not shown them
};

Result<ResponsesRequest> parse_responses_request(const Json & body, const CompletionOptions & defaults,
                                                 const Tokenizer & tokenizer);

}  // namespace pith::serve
