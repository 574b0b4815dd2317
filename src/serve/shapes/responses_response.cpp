// responses_response.cpp - whole responses. Stage: serve.
#include "serve/shapes/responses_response.h"

#include <utility>

#include "serve/shapes/ids.h"

namespace pith::serve {
namespace {

// Tokens as OpenAI counts them here, and what the cache holds.
Json responses_usage(const AnswerEnd & end) {
    const AnswerCosts & costs = end.costs;
    Json usage = {{"input_tokens", costs.n_prompt},
                  {"input_tokens_details", {{"cached_tokens", costs.n_cached}, {"cache_write_tokens", 0}}},
                  {"output_tokens", costs.n_generated},
                  {"output_tokens_details", {{"reasoning_tokens", costs.n_thought}}},
                  {"total_tokens", costs.n_prompt + costs.n_generated}};
    add_kv_usage(end, usage);
    return usage;
}

}  // namespace

std::string responses_error_code(const ApiError & error) {
    if (error.type == kTooLong) { return "context_length_exceeded"; }
    switch (error.code) {
        case 400:
            return "invalid_prompt";
        case 401:
            return "invalid_api_key";
        case 429:
            return "rate_limit_exceeded";
        case 503:
            return "server_is_overloaded";
        default:
            return error.code < 500 ? "invalid_request" : "server_error";
    }
}

Json responses_error(const ApiError & error) {
    Json json = {{"message", error.message},
                 {"type", error.type},
                 {"param", error.param.empty() ? Json() : Json(error.param)},
                 {"code", responses_error_code(error)}};
    json.update(error.more);
    return {{"error", std::move(json)}};
}

ResponsesShape::ResponsesShape(std::string model, Json told)
    : model_(std::move(model)), told_(std::move(told)), id_("resp_" + random_letters(32)), created_(unix_time()) {}

Json ResponsesShape::frame(std::string_view status, Json output) const {
    Json json = {{"id", id_},
                 {"object", "response"},
                 {"created_at", created_},
                 {"completed_at", nullptr},
                 {"status", status},
                 {"error", nullptr},
                 {"incomplete_details", nullptr},
                 {"model", model_},
                 {"output", std::move(output)}};
    json.update(told_);
    json["usage"] = nullptr;
    return json;
}

Json ResponsesShape::in_progress() const {
    return frame("in_progress", Json::array());
}

Json ResponsesShape::ended(const AnswerEnd & end, Json output) const {
    Json json = frame(end.by_length ? "incomplete" : "completed", std::move(output));
    if (end.by_length) {
        json["incomplete_details"] = {{"reason", "max_output_tokens"}};
    } else {
        json["completed_at"] = unix_time();
    }
    json["usage"] = responses_usage(end);
    return json;
}

Json ResponsesShape::failed(const ApiError & error, Json output) const {
    Json json = frame("failed", std::move(output));
    json["error"] = {{"code", responses_error_code(error)}, {"message", error.message}};
    return json;
}

}  // namespace pith::serve
