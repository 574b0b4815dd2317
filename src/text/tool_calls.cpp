// tool_calls.cpp - which form a template has, and functions and calls as text. Stage: text.
#include "text/tool_calls.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "core/json_syntax.h"
#include "text/tool_marks.h"

namespace pith {
namespace {

using Json = nlohmann::ordered_json;

std::string dumped(const Json & value) {
    return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<Json> list_in(const std::string & text, const char * what) {
    if (const std::string problem = json_problem(text); !problem.empty()) {
        return {ErrorCode::kInvalidArgument, std::string(what) + " cannot be read as JSON: " + problem};
    }
    Json list = Json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (!list.is_array()) { return {ErrorCode::kInvalidArgument, std::string(what) + " are no JSON array"}; }
    return list;
}

std::string system_text(const Json & tools) {
    std::string text = "You can call these functions:\n";
    for (const Json & tool : tools) { text += dumped(tool.contains("function") ? tool["function"] : tool) + "\n"; }
    return text + "To call one, answer with nothing but\n" + std::string(tool_marks::kFence) +
           "\n{\"name\": \"the function\", \"arguments\": {}}\n" + std::string(tool_marks::kFenceEnd) +
           "\nYou are told what it returns. Where no function is needed, answer as usual.";
}

// An answer's calls as the system prompt asks for them.
Result<std::string> calls_as_text(const std::string & tool_calls) {
    PITH_ASSIGN_OR_RETURN(const Json calls, list_in(tool_calls, "a message's tool calls"));
    std::string text;
    for (const Json & call : calls) {
        const Json & function = call.is_object() && call.contains("function") ? call["function"] : call;
        if (!function.is_object()) { return {ErrorCode::kInvalidArgument, "a tool call of a message is no object"}; }
        Json arguments = function.value("arguments", Json::object());
        if (arguments.is_string()) {
            const std::string said = arguments;  // which a client sends back as it likes
            if (json_problem(said).empty()) { arguments = Json::parse(said, nullptr, /*allow_exceptions=*/false); }
        }
        const Json object = {{"name", function.value("name", Json())}, {"arguments", std::move(arguments)}};
        text += (text.empty() ? "" : "\n") + std::string(tool_marks::kFence) + "\n" + dumped(object) + "\n" +
                std::string(tool_marks::kFenceEnd);
    }
    return text;
}

}  // namespace

ToolForm tool_form(std::string_view chat_template) {
    const auto holds = [chat_template](std::string_view text) { return chat_template.find(text) != std::string_view::npos; };
    if (holds(tool_marks::kCommentary)) { return ToolForm::kHarmony; }
    if (holds(tool_marks::kListOpen)) { return holds(tool_marks::kArguments) ? ToolForm::kNamed : ToolForm::kList; }
    if (holds(tool_marks::kTagOpen)) {
        if (holds(tool_marks::kKeyOpen)) { return ToolForm::kPairs; }
        if (holds(tool_marks::kFunctionOpen)) {
            return holds(tool_marks::kParameterOpen) ? ToolForm::kParameters : ToolForm::kFenced;
        }
        return ToolForm::kTagged;
    }
    if (holds(tool_marks::kPython) || (holds("tools") && holds("\"parameters\": "))) { return ToolForm::kBare; }
    return ToolForm::kFenced;
}

bool shows_tools(ToolForm form) {
    return form != ToolForm::kFenced;
}

std::string_view arguments_key(ToolForm form) {
    return form == ToolForm::kBare ? "parameters" : "arguments";
}

Result<std::vector<ChatMessage>> with_tools_as_text(std::span<const ChatMessage> messages, const std::string & tools) {
    std::vector<ChatMessage> out;
    if (!tools.empty()) {
        PITH_ASSIGN_OR_RETURN(const Json list, list_in(tools, "the tools"));
        out.push_back({"system", system_text(list)});
    }
    for (size_t i = 0; i < messages.size(); ++i) {
        ChatMessage message = messages[i];
        if (i == 0 && message.role == "system" && !out.empty()) {
            out[0].content = message.content + "\n\n" + out[0].content;
            continue;
        }
        if (!message.tool_calls.empty()) {
            PITH_ASSIGN_OR_RETURN(const std::string calls, calls_as_text(message.tool_calls));
            message.content += (message.content.empty() ? "" : "\n") + calls;
            message.tool_calls.clear();
        }
        if (message.role == "tool") {
            const std::string text = "```tool_output\n" + message.content + "\n```";
            if (i > 0 && messages[i - 1].role == "tool") {
                out.back().content += "\n" + text;
                continue;
            }
            message = {"user", text};
        } else if (message.role == "user" && i > 0 && messages[i - 1].role == "tool") {  // what results are is a user's turn
            out.back().content += "\n\n" + message.content;
            continue;
        }
        out.push_back(std::move(message));
    }
    return out;
}

}  // namespace pith
