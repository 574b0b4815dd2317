// responses_input.h - the items of a conversation, as /v1/responses has them, put together as messages. Stage: serve.
//
// What the assistant thought, said and called stands in items of its own; those that follow one another are one message.
// Errors: kInvalidArgument, kUnsupported; each names the item.   Threads: one at a time.
#pragma once

#include <string>

#include "serve/shapes/completion_request.h"

namespace pith::serve {

// Sets the request's messages.   input: a text of the user's, or a list of items.   instructions: may be empty.
Status read_input(const Json & input, const std::string & instructions, ChatRequest & request);

}  // namespace pith::serve
