// chat_json.cpp - messages out of JSON. Stage: text.
#include <nlohmann/json.hpp>
#include <string>

#include "core/json_syntax.h"
#include "pith/chat.h"

namespace pith {
namespace {

using Json = nlohmann::ordered_json;

Status wrong(size_t index, const std::string & what) {
    return {ErrorCode::kInvalidArgument, "message " + std::to_string(index + 1) + ": " + what};
}

Result<std::string> text_in(const Json & message, const char * key, size_t index) {
    if (!message.contains(key) || message[key].is_null()) { return std::string(); }
    if (!message[key].is_string()) { return wrong(index, std::string("\"") + key + "\" is no text"); }
    return message[key].get<std::string>();
}

Result<std::string> content_of(const Json & message, size_t index) {
    if (!message.contains("content") || !message["content"].is_array()) { return text_in(message, "content", index); }
    std::string text;
    for (const Json & part : message["content"]) {
        if (!part.is_object() || !part.contains("type") || part["type"] != "text" || !part.contains("text") ||
            !part["text"].is_string()) {
            return wrong(index, "a part of \"content\" is no {\"type\": \"text\", \"text\": …}");
        }
        text += part["text"].get<std::string>();
    }
    return text;
}

}  // namespace

Result<std::vector<ChatMessage>> chat_messages_of_json(std::string_view json) {
    if (const std::string problem = json_problem(json); !problem.empty()) {
        return {ErrorCode::kInvalidArgument, "the messages cannot be read as JSON: " + problem};
    }
    const Json list = Json::parse(json, nullptr, /*allow_exceptions=*/false);
    if (!list.is_array()) { return {ErrorCode::kInvalidArgument, "the messages are no JSON array"}; }
    std::vector<ChatMessage> messages;
    for (const Json & one : list) {
        const size_t index = messages.size();
        if (!one.is_object()) { return wrong(index, "is no JSON object"); }
        ChatMessage message;
        PITH_ASSIGN_OR_RETURN(message.role, text_in(one, "role", index));
        if (message.role.empty()) { return wrong(index, "has no \"role\""); }
        PITH_ASSIGN_OR_RETURN(message.content, content_of(one, index));
        PITH_ASSIGN_OR_RETURN(message.reasoning, text_in(one, "reasoning_content", index));
        PITH_ASSIGN_OR_RETURN(message.tool_call_id, text_in(one, "tool_call_id", index));
        PITH_ASSIGN_OR_RETURN(message.name, text_in(one, "name", index));
        if (one.contains("tool_calls") && !one["tool_calls"].is_null()) {
            if (!one["tool_calls"].is_array()) { return wrong(index, "\"tool_calls\" is no list"); }
            if (!one["tool_calls"].empty()) {
                message.tool_calls = one["tool_calls"].dump(-1, ' ', false, Json::error_handler_t::replace);
            }
        }
        messages.push_back(std::move(message));
    }
    return messages;
}

}  // namespace pith
