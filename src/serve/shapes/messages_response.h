// messages_response.h - answers and errors as Anthropic's clients read them. Stage: serve.   Threads: const-safe.
#pragma once

#include <cstdint>
#include <string>

#include "serve/shapes/api_error.h"
#include "serve/shapes/completion_response.h"

namespace pith::serve {

// {"type": "error", "error": {"type", "message", …}}
Json messages_error(const ApiError & error);

// Names and texts of one answer's events.
class MessagesShape {
public:
    explicit MessagesShape(std::string model);

    Json whole(const WholeAnswer & answer) const;

    // Of a stream, in this order.
    Json message_start(int64_t n_prompt) const;
    static Json message_delta(const AnswerEnd & end);

private:
    Json frame() const;

    std::string model_;
    std::string id_;
};

}  // namespace pith::serve
