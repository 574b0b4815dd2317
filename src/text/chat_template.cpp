// chat_template.cpp - messages as JSON, the template's own Jinja, libllama's list behind it. Stage: text.
#include "text/chat_template.h"

#include <llama.h>

#include <algorithm>
#include <climits>
#include <exception>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>
#include <vector>

#include "core/items.h"
#include "core/json_syntax.h"
#include "core/text.h"
#include "pith/log.h"
#include "text/jinja.h"

namespace pith {
namespace {

using Json = nlohmann::ordered_json;

// Empty text: null.
Result<Json> read_json(const std::string & what, const std::string & text, Json::value_t kind) {
    if (text.empty()) { return Json(); }
    const bool is_list = kind == Json::value_t::array;
    if (const std::string problem = json_problem(text); !problem.empty()) {
        return {ErrorCode::kInvalidArgument, what + " cannot be read as JSON: " + problem};
    }
    Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (json.is_discarded() || json.type() != kind) {
        return {ErrorCode::kInvalidArgument, what + (is_list ? " are no JSON array" : " are no JSON object")};
    }
    return json;
}

// A function by itself is one that OpenAI would wrap.
Result<Json> tools_of(const ChatOptions & options) {
    PITH_ASSIGN_OR_RETURN(Json tools, read_json("the tools", options.tools, Json::value_t::array));
    for (Json & tool : tools) {
        if (tool.is_object() && !tool.contains("function") && tool.contains("name")) {
            tool = {{"type", "function"}, {"function", std::move(tool)}};
        }
        if (!tool.is_object() || !tool.contains("function") || !tool["function"].is_object() ||
            !tool["function"].contains("name")) {
            return {
                ErrorCode::kInvalidArgument,
                "the tools: each is {\"type\": \"function\", \"function\": {\"name\": …}}, not " + tool.dump().substr(0, 60)};
        }
    }
    return tools;
}

Result<Json> variables_of(const ChatOptions & options) {
    return read_json("the template's variables", options.variables, Json::value_t::object);
}

// names_thinking: the template calls thoughts so, as gpt-oss's does, which refuses them beside what is said.
Result<Json> message_of(const ChatMessage & message, bool names_thinking) {
    Json json = {{"role", message.role}, {"content", message.content}};
    if (!message.reasoning.empty()) { json["reasoning_content"] = message.reasoning; }
    if (names_thinking && !message.reasoning.empty() && message.content.empty()) { json["thinking"] = message.reasoning; }
    if (!message.tool_calls.empty()) {
        PITH_ASSIGN_OR_RETURN(json["tool_calls"],
                              read_json("a message's tool calls", message.tool_calls, Json::value_t::array));
    }
    if (!message.name.empty()) { json["name"] = message.name; }
    if (!message.tool_call_id.empty()) { json["tool_call_id"] = message.tool_call_id; }
    return json;
}

// Names that templates of models which can do either ask for.
void set_reasoning(Json & values, Reasoning reasoning) {
    if (reasoning == Reasoning::kAuto) { return; }
    const bool on = reasoning == Reasoning::kOn;
    values["enable_thinking"] = on;
    values["thinking"] = on;
    if (!on) { values["thinking_budget"] = 0; }
}

bool needs_jinja(std::span<const ChatMessage> messages, const ChatOptions & options) {
    const bool any = std::ranges::any_of(messages, [](const ChatMessage & message) {
        return !message.tool_calls.empty() || message.role == "tool" || !message.reasoning.empty();
    });
    return any || !options.tools.empty() || !options.variables.empty() || options.reasoning != Reasoning::kAuto;
}

std::vector<std::string_view> listed_names() {
    std::vector<const char *> names(static_cast<size_t>(std::max(0, llama_chat_builtin_templates(nullptr, 0))));
    llama_chat_builtin_templates(names.data(), names.size());
    return {names.begin(), names.end()};
}

bool is_name(const std::string & source) {
    return source.find('{') == std::string::npos;
}

constexpr std::string_view kNeedsJinja =
    "tools, variables and reasoning need a template in Jinja that can be rendered, and libllama's list has none of them";

}  // namespace

ChatTemplate::ChatTemplate(std::string source, std::string begin_token, std::string end_token)
    : source_(std::move(source)),
      begin_token_(std::move(begin_token)),
      end_token_(std::move(end_token)),
      is_listed_(!source_.empty() && is_name(source_)) {}

Result<std::string> ChatTemplate::render(std::span<const ChatMessage> messages, const ChatOptions & options) const {
    if (is_listed_) {
        if (needs_jinja(messages, options)) { return {ErrorCode::kUnsupported, std::string(kNeedsJinja)}; }
        return by_list(messages, options.add_assistant);
    }
    Json values = {{"messages", Json::array()}};
    const bool names_thinking = source_.find("message.thinking") != std::string::npos;
    for (const ChatMessage & message : messages) {
        PITH_ASSIGN_OR_RETURN(Json one, message_of(message, names_thinking));
        values["messages"].push_back(std::move(one));
    }
    PITH_ASSIGN_OR_RETURN(Json tools, tools_of(options));
    if (!tools.empty()) { values["tools"] = std::move(tools); }
    values["add_generation_prompt"] = options.add_assistant;
    values["bos_token"] = begin_token_;
    values["eos_token"] = end_token_;
    set_reasoning(values, options.reasoning);
    PITH_ASSIGN_OR_RETURN(const Json variables, variables_of(options));
    for (const auto & [name, value] : variables.items()) { values[name] = value; }

    auto text = render_jinja(source_, values);
    if (text.ok()) { return text; }
    const ErrorCode code = text.status().code();
    if (code != ErrorCode::kUnsupported && code != ErrorCode::kInvalidArgument) { return text; }  // nothing of the template's
    const Wording why = "the chat template " + text.status().wording();
    if (code == ErrorCode::kInvalidArgument) { return {code, why}; }
    if (needs_jinja(messages, options)) { return {ErrorCode::kUnsupported, why}; }
    auto listed = by_list(messages, options.add_assistant);
    if (!listed.ok()) { return {ErrorCode::kUnsupported, why + "; " + listed.status().wording()}; }
    const std::string instead = why.text() + ": libllama's text for templates like it is used instead";
    const std::lock_guard lock(problem_mutex_);
    if (problem_ != instead) { log_line(LogLevel::kWarning, instead); }
    problem_ = instead;
    return listed;
}

std::string ChatTemplate::problem() const {
    const std::lock_guard lock(problem_mutex_);
    return problem_;
}

Result<std::string> ChatTemplate::by_list(std::span<const ChatMessage> messages, bool add_assistant) const {
    std::vector<llama_chat_message> chat;
    size_t n_bytes = 256;
    for (const ChatMessage & message : messages) {
        if (message.content.find('\0') != std::string::npos) {
            return {ErrorCode::kInvalidArgument, "a chat message holds a zero byte: remove it"};
        }
        chat.push_back({message.role.c_str(), message.content.c_str()});
        n_bytes += 2 * (message.role.size() + message.content.size()) + 64;
    }
    if (n_bytes > static_cast<size_t>(INT_MAX)) { return {ErrorCode::kInvalidArgument, "the chat is longer than 1 GiB"}; }
    try {
        std::string text(n_bytes, '\0');
        for (int attempt = 0; attempt < 2; ++attempt) {
            const int32_t n = llama_chat_apply_template(source_.c_str(), chat.data(), chat.size(), add_assistant, text.data(),
                                                        static_cast<int32_t>(text.size()));
            if (n < 0) { break; }
            const bool fits = static_cast<size_t>(n) <= text.size();
            text.resize(static_cast<size_t>(n));
            if (fits) { return text; }
        }
    } catch (const std::exception & error) {
        return {ErrorCode::kUnsupported, std::string("libllama failed to apply the chat template: ") + error.what()};
    }
    return {ErrorCode::kUnsupported,
            "libllama does not know the template either: give another one, or the text as it is (" + item::kRaw + ")"};
}

Status check_chat_template(const std::string & source) {
    if (source.empty() || !is_name(source)) { return {}; }
    const std::vector<std::string_view> names = listed_names();
    if (std::ranges::find(names, std::string_view(source)) != names.end()) { return {}; }
    const std::string_view near = nearest(source, names);
    return {ErrorCode::kInvalidArgument,
            "there is no chat template " + pith::quoted(source) +
                (near.empty() ? "; libllama's list: " + join(names, ", ") : ": did you mean " + pith::quoted(near) + "?")};
}

Status check_chat_options(const ChatOptions & options) {
    PITH_RETURN_IF_ERROR(tools_of(options).status());
    return variables_of(options).status();
}

}  // namespace pith
