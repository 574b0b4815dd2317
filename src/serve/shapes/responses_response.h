// responses_response.h - replies and errors as OpenAI's `responses` clients read them. Stage: serve.   Threads: const-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "serve/shapes/api_error.h"
#include "serve/shapes/completion_response.h"

namespace pith::serve {

// The words by which clients know an error: "context_length_exceeded", "rate_limit_exceeded", "server_is_overloaded" …
std::string responses_error_code(const ApiError & error);
// {"error": {message, type, param, code}}
Json responses_error(const ApiError & error);

// What all replies to one request have in common.
class ResponsesShape {
public:
    // told: what a reply tells of the request again.
    ResponsesShape(std::string model, Json told);

    Json in_progress() const;  // nothing is said yet
    // completed, or incomplete where it was cut off.
    Json ended(const AnswerEnd & end, Json output) const;
    Json failed(const ApiError & error, Json output) const;

private:
    Json frame(std::string_view status, Json output) const;

    std::string model_;
    Json told_;
    std::string id_;
    int64_t created_ = 0;  // Unix time
};

}  // namespace pith::serve
