// api_error.cpp - codes and types of errors. Stage: serve.
#include "serve/shapes/api_error.h"

namespace pith::serve {

Json ApiError::json() const {
    Json error = {{"code", code}, {"message", message}, {"type", type}};
    error.update(more);
    return {{"error", std::move(error)}};
}

ApiError invalid_request(const std::string & message) {
    return {400, "invalid_request_error", message};
}

ApiError not_found() {
    return {404, "not_found_error", "there is nothing at this path, or not for this method"};
}

ApiError not_authorised() {
    return {401, "authentication_error", "the API key is missing or wrong: send it as 'Authorization: Bearer KEY'"};
}

ApiError too_large(size_t most_bytes) {
    return {413, "invalid_request_error", "the body is larger than " + std::to_string(most_bytes) + " bytes"};
}

ApiError not_ready(const std::string & message) {
    return {503, "unavailable_error", message};
}

ApiError no_room(const std::string & message, int64_t retry_after_s) {
    ApiError error{429, "rate_limit_error", message};
    error.retry_after_s = retry_after_s;
    return error;
}

ApiError too_long(int64_t n_prompt, int64_t n_context) {
    ApiError error{400, "exceed_context_size_error",
                   "the prompt has " + std::to_string(n_prompt) + " tokens, the context is " + std::to_string(n_context) +
                       ": shorten it, or start the server with a larger --ctx-size"};
    error.more = {{"n_prompt_tokens", n_prompt}, {"n_ctx", n_context}};
    return error;
}

ApiError error_of(const Status & status) {
    switch (status.code()) {
        case ErrorCode::kInvalidArgument:
        case ErrorCode::kBudget:
        case ErrorCode::kMissingEvidence:
            return {400, "invalid_request_error", status.message()};
        case ErrorCode::kNotFound:
            return {404, "not_found_error", status.message()};
        case ErrorCode::kUnsupported:
            return {501, "not_supported_error", status.message()};
        case ErrorCode::kOutOfMemory:
        case ErrorCode::kCancelled:
            return {503, "unavailable_error", status.message()};
        default:
            return {500, "server_error", status.message()};
    }
}

}  // namespace pith::serve
