// api_error.h - what a client is told when a request cannot be served: OpenAI's shape, llama-server's codes and types.
// Stage: serve.   Threads: values.
#pragma once

#include <cstdint>
#include <string>

#include "serve/shapes/json.h"

namespace pith::serve {

inline constexpr const char * kTooLong = "exceed_context_size_error";

struct ApiError {
    int code = 500;  // HTTP's
    std::string type = "server_error";
    std::string message;
    Json more = Json::object();  // further keys of the error object
    int64_t retry_after_s = 0;   // above 0: a header says so
    std::string param;           // the request's field that it is about, as OpenAI has it; empty: none

    Json json() const;  // {"error": {code, message, type, param, …}}
};

ApiError invalid_request(const std::string & message);
ApiError not_found();
ApiError not_authorised();
ApiError too_large(size_t most_bytes);
ApiError not_ready(const std::string & message);                       // 503
ApiError no_room(const std::string & message, int64_t retry_after_s);  // 429
// 400 exceed_context_size_error, in llama-server's words: agents look for them, and then shorten the conversation.
ApiError too_long(int64_t n_prompt, int64_t n_context);
// A Status as clients read it: what the library calls its budget is their kv_budget.
std::string message_of(const Status & status);
// By the code: what the client got wrong and what Pith does not do is 400 (clients try anything from 500 on again), what it ran
// out of is 503, all else is 500.
ApiError error_of(const Status & status);

}  // namespace pith::serve
