// messages_response.cpp - content blocks. Stage: serve.
#include "serve/shapes/messages_response.h"

#include <utility>

#include "core/json_syntax.h"
#include "serve/shapes/ids.h"

namespace pith::serve {
namespace {

const char * messages_error_type(int code) {
    switch (code) {
        case 400:
            return "invalid_request_error";
        case 401:
            return "authentication_error";
        case 403:
            return "permission_error";
        case 404:
            return "not_found_error";
        case 413:
            return "request_too_large";
        case 429:
            return "rate_limit_error";
        case 503:
            return "overloaded_error";
        case 504:
            return "timeout_error";
        default:
            return code < 500 ? "invalid_request_error" : "api_error";
    }
}

void set_stop(const AnswerEnd & end, Json & json) {
    json["stop_reason"] = end.by_length       ? "max_tokens"
                          : !end.stop.empty() ? "stop_sequence"
                          : end.has_called    ? "tool_use"
                                              : "end_turn";
    json["stop_sequence"] = end.stop.empty() ? Json() : Json(end.stop);
}

// Tokens as Anthropic counts them, and what the cache holds.
Json messages_usage(const AnswerEnd & end) {
    Json usage = {{"input_tokens", end.costs.n_prompt - end.costs.n_cached},
                  {"cache_creation_input_tokens", 0},
                  {"cache_read_input_tokens", end.costs.n_cached},
                  {"output_tokens", end.costs.n_generated}};
    add_kv_usage(end, usage);
    return usage;
}

}  // namespace

// A full context in Anthropic's words: its clients look for them, and then shorten the conversation.
Json messages_error(const ApiError & error) {
    std::string message = error.message;
    if (error.type == kTooLong) {
        message = "prompt is too long: " + dump(error.more["n_prompt_tokens"]) + " tokens > " + dump(error.more["n_ctx"]) +
                  " maximum";
    }
    Json json = {{"type", messages_error_type(error.code)}, {"message", std::move(message)}};
    json.update(error.more);
    return {{"type", "error"}, {"error", std::move(json)}};
}

MessagesShape::MessagesShape(std::string model) : model_(std::move(model)), id_("msg_" + random_letters(24)) {}

Json MessagesShape::frame() const {
    return {{"id", id_}, {"type", "message"}, {"role", "assistant"}, {"model", model_}, {"content", Json::array()}};
}

Json MessagesShape::whole(const WholeAnswer & answer) const {
    Json json = frame();
    Json & content = json["content"];
    if (!answer.reasoning.empty()) {
        content.push_back({{"type", "thinking"}, {"thinking", answer.reasoning}, {"signature", ""}});
    }
    if (!answer.text.empty() || answer.calls.empty()) { content.push_back({{"type", "text"}, {"text", answer.text}}); }
    for (const WholeCall & call : answer.calls) {
        Json input;  // not looked into where it is nested deeper than what writes it can follow
        if (json_problem(call.arguments).empty()) { input = Json::parse(call.arguments, nullptr, /*allow_exceptions=*/false); }
        if (!input.is_object()) { input = Json::object(); }  // no JSON: the answer was cut off, or the model erred
        content.push_back({{"type", "tool_use"}, {"id", call.id}, {"name", call.name}, {"input", std::move(input)}});
    }
    set_stop(answer.end, json);
    json["usage"] = messages_usage(answer.end);
    return json;
}

Json MessagesShape::message_start(int64_t n_prompt) const {
    Json json = frame();
    json["stop_reason"] = nullptr;
    json["stop_sequence"] = nullptr;
    json["usage"] = {{"input_tokens", n_prompt}, {"output_tokens", 0}};
    return {{"type", "message_start"}, {"message", std::move(json)}};
}

Json MessagesShape::message_delta(const AnswerEnd & end) {
    Json delta = Json::object();
    set_stop(end, delta);
    return {{"type", "message_delta"}, {"delta", std::move(delta)}, {"usage", messages_usage(end)}};
}

}  // namespace pith::serve
