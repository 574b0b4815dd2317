// completion_request.cpp - messages and prompts. Stage: serve.
#include "serve/shapes/completion_request.h"

#include <algorithm>

#include "core/text.h"
#include "serve/shapes/completion_options.h"
#include "serve/shapes/fields.h"

namespace pith::serve {

Status read_template_fields(Fields & fields, ChatRequest & request) {
    Json variables = Json::object();
    if (const Json * given = fields.find("chat_template_kwargs")) {
        if (!given->is_object()) {
            return wrong_field("chat_template_kwargs", *given, "an object of the template's variables");
        }
        variables = *given;
    }
    PITH_RETURN_IF_ERROR(fields.read("reasoning_effort", request.effort));
    if (!variables.empty()) { request.variables = dump(variables); }
    std::string format;
    PITH_RETURN_IF_ERROR(fields.read("reasoning_format", format));
    if (format.empty()) { return {}; }
    if (format != "auto" && format != "none" && format != "deepseek") {
        return wrong_field("reasoning_format", format, "auto, deepseek or none");
    }
    request.options.tells_reasoning = format != "none";
    request.options.hides_reasoning = false;
    return {};
}

namespace {

// Text parts stand one under the other, as llama-server has them.
Result<std::string> text_of_parts(const Json & parts, const std::string & name) {
    std::string text;
    for (size_t i = 0; i < parts.size(); ++i) {
        const std::string place = name + "[" + std::to_string(i) + "]";
        if (!parts[i].is_object()) { return wrong_field(place, parts[i], "an object with a type"); }
        Fields part(parts[i]);
        std::string type;
        std::string piece;
        PITH_RETURN_IF_ERROR(part.read("type", type));
        if (type != "text") {
            return {ErrorCode::kUnsupported,
                    pith::quoted(place) + " is of type " + pith::quoted(type) + ": Pith reads text only"};
        }
        if (!part.has("text")) { return wrong(field(place) + " has no text"); }
        PITH_RETURN_IF_ERROR(part.read("text", piece));
        if (!text.empty()) { text += '\n'; }
        text += piece;
    }
    return text;
}

Result<ChatMessage> parse_message(const Json & value, const std::string & name) {
    if (!value.is_object()) { return wrong_field(name, value, "an object with role and content"); }
    Fields fields(value);
    ChatMessage message;
    PITH_RETURN_IF_ERROR(fields.read("role", message.role));
    if (message.role.empty()) { return wrong(field(name) + " has no role: give system, user or assistant"); }
    if (message.role == "developer") { message.role = "system"; }  // its newer name
    if (message.role == "function") { message.role = "tool"; }     // its older name
    PITH_RETURN_IF_ERROR(fields.read("name", message.name));
    PITH_RETURN_IF_ERROR(fields.read("tool_call_id", message.tool_call_id));
    PITH_RETURN_IF_ERROR(fields.read("reasoning_content", message.reasoning));
    if (const Json * calls = fields.find("tool_calls"); calls != nullptr && !calls->empty()) {
        PITH_ASSIGN_OR_RETURN(message.tool_calls, read_tool_calls(*calls, name + ".tool_calls"));
    }
    const Json * content = fields.find("content");
    if (content == nullptr) {  // null: a stream that ended in a thought, a tool that returned nothing
        if (message.tool_calls.empty() && !value.contains("content")) { return wrong(field(name) + " has no content"); }
        return message;
    }
    if (content->is_array()) {
        PITH_ASSIGN_OR_RETURN(message.content, text_of_parts(*content, name + ".content"));
    } else if (content->is_string()) {
        message.content = content->get<std::string>();
    } else {
        return wrong_field(name + ".content", *content, "a text, or a list of parts");
    }
    return message;
}

Status read_messages(Fields & fields, ChatRequest & request) {
    const Json * list = nullptr;
    PITH_RETURN_IF_ERROR(fields.read_messages(list));
    for (size_t i = 0; i < list->size(); ++i) {
        request.places.push_back("messages[" + std::to_string(i) + "]");
        PITH_ASSIGN_OR_RETURN(ChatMessage message, parse_message((*list)[i], request.places.back()));
        request.messages.push_back(std::move(message));
    }
    return {};
}

bool is_token_list(const Json & value) {
    if (!value.is_array() || value.empty()) { return false; }
    return std::ranges::all_of(value, [](const Json & one) { return one.is_number_integer(); });
}

Result<TextPrompt> parse_prompt(const Json & value, const std::string & name, int n_vocab) {
    if (value.is_string()) { return TextPrompt(value.get<std::string>()); }
    if (!is_token_list(value)) { return wrong_field(name, value, "a text, a list of tokens, or a list of these"); }
    std::vector<int32_t> tokens;
    for (const Json & one : value) {
        const auto token = one.get<int64_t>();
        if (token < 0 || token >= n_vocab) { return wrong_field(name, one, "tokens from 0 to " + std::to_string(n_vocab - 1)); }
        tokens.push_back(static_cast<int32_t>(token));
    }
    return TextPrompt(std::move(tokens));
}

// Refused unless it asks for nothing.
Status check_nothing(Fields & fields, std::string_view name, const std::string & why) {
    const Json * value = fields.find(name);
    const bool nothing = value == nullptr || *value == false || *value == "" || (value->is_array() && value->empty());
    if (nothing) { return {}; }
    return {ErrorCode::kUnsupported, field(name) + " is not supported: " + why};
}

Status check_text_only(Fields & fields) {
    PITH_RETURN_IF_ERROR(check_nothing(fields, "functions", "give 'tools' instead"));
    if (const Json * modes = fields.find("modalities"); modes != nullptr && *modes != Json::array({"text"})) {
        return {ErrorCode::kUnsupported, "'modalities' is not supported: Pith reads and writes text only"};
    }
    return check_nothing(fields, "audio", "Pith reads and writes text only");
}

Status read_conversation(Fields & fields, ChatRequest & request) {
    PITH_RETURN_IF_ERROR(read_messages(fields, request));
    PITH_RETURN_IF_ERROR(read_tools(fields, request.tools));
    PITH_RETURN_IF_ERROR(fields.read("continue_final_message", request.continues));
    if (fields.has("continue_final_message") && request.continues && request.messages.back().role != "assistant") {
        return wrong(field("continue_final_message") + " is true, and the last message is not the assistant's: leave it out");
    }
    return read_template_fields(fields, request);
}

}  // namespace

Result<ChatRequest> parse_conversation(const Json & body) {
    Fields fields(body);
    ChatRequest request;
    PITH_RETURN_IF_ERROR(read_conversation(fields, request));
    return request;
}

Result<ChatRequest> parse_chat_request(const Json & body, const CompletionOptions & defaults, const Tokenizer & tokenizer) {
    Fields fields(body);
    ChatRequest request;
    request.options = defaults;
    PITH_RETURN_IF_ERROR(read_conversation(fields, request));
    PITH_RETURN_IF_ERROR(check_text_only(fields));
    bool wants_logprobs = false;
    PITH_RETURN_IF_ERROR(fields.read("logprobs", wants_logprobs));
    int n_top = 0;
    PITH_RETURN_IF_ERROR(fields.read("top_logprobs", n_top, 0, kMostLogprobs));
    if (n_top > 0 && !wants_logprobs) { return wrong(field("top_logprobs") + " needs 'logprobs': true"); }
    if (wants_logprobs) { request.options.n_logprobs = n_top; }
    PITH_RETURN_IF_ERROR(read_options(fields, tokenizer, request.options));
    PITH_RETURN_IF_ERROR(check_one_form(request));
    return request;
}

Result<TextRequest> parse_text_request(const Json & body, const CompletionOptions & defaults, const Tokenizer & tokenizer) {
    Fields fields(body);
    TextRequest request;
    request.options = defaults;
    const Json * prompt = fields.find("prompt");
    if (prompt == nullptr) { return wrong(field("prompt") + " is missing: give a text, a list of tokens, or a list of these"); }
    const int n_vocab = tokenizer.n_vocab();
    if (prompt->is_array() && !is_token_list(*prompt)) {
        if (prompt->empty()) { return wrong(field("prompt") + " is an empty list: give at least one"); }
        for (size_t i = 0; i < prompt->size(); ++i) {
            PITH_ASSIGN_OR_RETURN(TextPrompt one, parse_prompt((*prompt)[i], "prompt[" + std::to_string(i) + "]", n_vocab));
            request.prompts.push_back(std::move(one));
        }
    } else {
        PITH_ASSIGN_OR_RETURN(TextPrompt one, parse_prompt(*prompt, "prompt", n_vocab));
        request.prompts.push_back(std::move(one));
    }
    PITH_RETURN_IF_ERROR(check_nothing(fields, "echo", "an answer does not repeat its prompt; leave it out"));
    PITH_RETURN_IF_ERROR(check_nothing(fields, "suffix", "Pith does not fill in the middle; leave it out"));
    PITH_RETURN_IF_ERROR(fields.read("logprobs", request.options.n_logprobs, 0, kMostLogprobs));
    PITH_RETURN_IF_ERROR(read_options(fields, tokenizer, request.options));
    int best_of = request.options.n;
    PITH_RETURN_IF_ERROR(fields.read("best_of", best_of, 1, kMostChoices));
    if (best_of != request.options.n) {
        return {ErrorCode::kUnsupported, "'best_of' is not supported: give the number of answers as 'n'"};
    }
    const auto n_all = static_cast<int64_t>(request.prompts.size()) * request.options.n;
    if (n_all > kMostChoices) {
        return wrong("the request asks for " + std::to_string(n_all) + " answers, prompts times 'n': at most " +
                     std::to_string(kMostChoices) + " are given");
    }
    return request;
}

}  // namespace pith::serve
