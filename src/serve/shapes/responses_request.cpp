// responses_request.cpp - fields and tools of /v1/responses. Stage: serve.
#include "serve/shapes/responses_request.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "core/text.h"
#include "serve/shapes/completion_options.h"
#include "serve/shapes/fields.h"
#include "serve/shapes/responses_input.h"
#include "serve/shapes/tools.h"

namespace pith::serve {
namespace {

constexpr int64_t kMostTokens = 1 << 30;

// Each would change the answer, and wants what a server without a memory has not.
struct Refused {
    std::string_view name;
    std::string_view instead;
};
constexpr auto kRefused = std::to_array<Refused>({
    {"previous_response_id", "send the whole conversation as 'input'"},
    {"conversation", "send the whole conversation as 'input'"},
    {"background", "leave it out, and wait for the reply"},
    {"prompt", "give 'instructions' and 'input' instead"},
    {"context_management", "leave it out, and shorten 'input' yourself"},
});

// Known to clients, and no part of what an answer says.
constexpr auto kHarmless = std::to_array<std::string_view>(
    {"include", "truncation", "max_tool_calls", "client_metadata", "prompt_cache_retention", "prompt_cache_options"});

Status check_refused(Fields & fields) {
    for (const auto & [name, instead] : kRefused) {
        const Json * value = fields.find(name);
        if (value == nullptr || *value == false || *value == "" || (value->is_structured() && value->empty())) { continue; }
        return {ErrorCode::kUnsupported,
                "this server stores no responses, and does not support " + field(name) + ": " + std::string(instead)};
    }
    return {};
}

class ToolReader {
public:
    explicit ToolReader(ResponsesRequest & request) : request_(request) {}

    Status read(const Json & value, const std::string & place, const std::string & space) {
        if (!value.is_object()) { return wrong_field(place, value, "an object with a type"); }
        Fields tool(value);
        std::string type;
        PITH_RETURN_IF_ERROR(tool.read("type", type));
        if (type.empty()) { return wrong(field(place) + " has no type: give function, custom or namespace"); }
        if (type == "namespace" && space.empty()) { return read_group(tool, place); }
        if (type != "function" && type != "custom") {
            if (request_.tools_of_others.size() < kMostTypes) { request_.tools_of_others.insert(type.substr(0, kMostType)); }
            return {};
        }
        std::string name;
        std::string description;
        bool strict = false;
        PITH_RETURN_IF_ERROR(tool.read("name", name));
        PITH_RETURN_IF_ERROR(tool.read("description", description));
        PITH_RETURN_IF_ERROR(tool.read("strict", strict));
        if (name.empty()) { return wrong(field(place) + " has no name"); }
        const std::string flat = flat_name(space, name);
        ToolsRequest & tools = request_.chat.tools;
        if (type == "custom") {
            return add_text_tool(place, flat, description, tool.find("format"), {space, name, /*takes_text=*/true}, tools);
        }
        if (!space.empty()) { tools.origins[flat] = {space, name, /*takes_text=*/false}; }
        return add_tool(place, flat, description, tool.find("parameters"), strict, tools);
    }

private:
    static constexpr size_t kMostTypes = 32;
    static constexpr size_t kMostType = 64;  // bytes

    Status read_group(Fields & group, const std::string & place) {
        std::string name;
        PITH_RETURN_IF_ERROR(group.read("name", name));
        if (name.empty()) { return wrong(field(place) + " has no name"); }
        const Json * list = group.find("tools");
        if (list == nullptr) { return {}; }
        if (!list->is_array()) { return wrong_field(place + ".tools", *list, "a list of tools"); }
        for (size_t i = 0; i < list->size(); ++i) {
            PITH_RETURN_IF_ERROR(read((*list)[i], place + ".tools[" + std::to_string(i) + "]", name));
        }
        return {};
    }

    ResponsesRequest & request_;
};

// The function that {"type": "function" or "custom", "name", "namespace"} names.
Result<std::string> chosen_name(const Json & value, const std::string & place) {
    const std::string wanted = "{\"type\": \"function\" or \"custom\", \"name\": …}";
    if (!value.is_object()) { return wrong_field(place, value, wanted); }
    Fields fields(value);
    std::string type;
    std::string name;
    std::string space;
    PITH_RETURN_IF_ERROR(fields.read("type", type));
    PITH_RETURN_IF_ERROR(fields.read("name", name));
    PITH_RETURN_IF_ERROR(fields.read("namespace", space));
    if ((type != "function" && type != "custom") || name.empty()) { return wrong_field(place, value, wanted); }
    return flat_name(space, name);
}

// Tools of other servers are left out of 'tools', too.
Result<std::optional<std::string>> allowed_name(const Json & one, const std::string & place) {
    const auto type = one.is_object() ? one.find("type") : one.end();
    const bool has_type = type != one.end() && type->is_string() && *type != "";
    if (has_type && *type != "function" && *type != "custom") { return std::optional<std::string>(); }
    PITH_ASSIGN_OR_RETURN(std::string name, chosen_name(one, place));
    return std::optional(std::move(name));
}

Status read_choice(const Json & choice, ToolsRequest & tools) {
    PITH_ASSIGN_OR_RETURN(const bool is_word, read_choice_word(choice, tools));
    if (is_word) { return {}; }
    if (!choice.is_object()) { return wrong_field("tool_choice", choice, "\"none\", \"auto\", \"required\" or a tool"); }
    Fields fields(choice);
    std::string type;
    PITH_RETURN_IF_ERROR(fields.read("type", type));
    if (type == "allowed_tools") { return read_allowed_tools(fields, "tool_choice", allowed_name, tools); }
    PITH_ASSIGN_OR_RETURN(const std::string name, chosen_name(choice, "tool_choice"));
    return tools.choose(name);
}

Status read_responses_tools(Fields & fields, ResponsesRequest & request) {
    ToolReader reader(request);
    PITH_RETURN_IF_ERROR(
        each_tool(fields, [&](const Json & tool, const std::string & place) { return reader.read(tool, place, ""); }));
    bool parallel = true;
    PITH_RETURN_IF_ERROR(fields.read("parallel_tool_calls", parallel));
    request.chat.tools.only_one = !parallel;
    const Json * choice = fields.find("tool_choice");
    return choice == nullptr ? Status() : read_choice(*choice, request.chat.tools);
}

Status read_reasoning(Fields & fields, ChatRequest & request) {
    const Json * reasoning = fields.find("reasoning");
    if (reasoning == nullptr) { return {}; }
    if (!reasoning->is_object()) { return wrong_field("reasoning", *reasoning, "an object with effort"); }
    Fields inner(*reasoning);
    return inner.read("effort", request.effort);
}

// "message.output_text.logprobs" among what is to be included, or a number of likeliest tokens.
Status read_logprobs(Fields & fields, CompletionOptions & options) {
    int n_top = 0;
    PITH_RETURN_IF_ERROR(fields.read("top_logprobs", n_top, 0, kMostLogprobs));
    std::vector<std::string> include;
    PITH_RETURN_IF_ERROR(fields.read("include", include));
    const bool asked = std::ranges::find(include, "message.output_text.logprobs") != include.end();
    if (asked || n_top > 0) { options.n_logprobs = n_top; }
    return {};
}

// What OpenAI's replies have of their requests; where one says nothing, what holds then.
Json told_again(Fields & fields, const ResponsesRequest & request) {
    const auto given = [&fields](std::string_view name, Json otherwise) {
        const Json * value = fields.find(name);
        return value != nullptr ? *value : std::move(otherwise);
    };
    const CompletionOptions & options = request.chat.options;
    return {{"instructions", given("instructions", nullptr)},
            {"max_output_tokens", given("max_output_tokens", nullptr)},
            {"metadata", given("metadata", Json::object())},
            {"parallel_tool_calls", given("parallel_tool_calls", true)},
            {"previous_response_id", nullptr},
            {"reasoning", given("reasoning", {{"effort", nullptr}, {"summary", nullptr}})},
            {"store", false},
            {"temperature", given("temperature", options.sampler.temperature)},
            {"text", given("text", {{"format", {{"type", "text"}}}})},
            {"tool_choice", given("tool_choice", "auto")},
            {"tools", given("tools", Json::array())},
            {"top_logprobs", given("top_logprobs", 0)},
            {"top_p", given("top_p", options.sampler.top_p)},
            {"truncation", "disabled"},
            {"background", false}};
}

}  // namespace

Result<ResponsesRequest> parse_responses_request(const Json & body, const CompletionOptions & defaults,
                                                 const Tokenizer & tokenizer) {
    Fields fields(body);
    ResponsesRequest request;
    ChatRequest & chat = request.chat;
    chat.options = defaults;
    chat.continues = false;  // what the assistant said is said: another message follows
    PITH_RETURN_IF_ERROR(check_refused(fields));
    std::string instructions;
    PITH_RETURN_IF_ERROR(fields.read("instructions", instructions));
    const Json * input = fields.find("input");
    if (input == nullptr) { return wrong(field("input") + " is missing: give a text, or a list of items"); }
    PITH_RETURN_IF_ERROR(read_input(*input, instructions, chat));
    PITH_RETURN_IF_ERROR(read_responses_tools(fields, request));
    PITH_RETURN_IF_ERROR(read_template_fields(fields, chat));
    PITH_RETURN_IF_ERROR(read_reasoning(fields, chat));
    PITH_RETURN_IF_ERROR(read_logprobs(fields, chat.options));
    if (const Json * text = fields.find("text")) {
        if (!text->is_object()) { return wrong_field("text", *text, "an object with a format"); }
        Fields inner(*text);
        if (const Json * format = inner.find("format")) {
            PITH_RETURN_IF_ERROR(follow_format(fields, *format, "text.format", chat.options));
        }
    }
    if (const Json * stored = fields.find("store"); stored != nullptr && !stored->is_boolean()) {
        return wrong_field("store", *stored, "true or false");
    }
    for (const std::string_view name : kHarmless) { fields.find(name); }
    int64_t most = -1;
    PITH_RETURN_IF_ERROR(fields.read("max_output_tokens", most, 1, kMostTokens));
    PITH_RETURN_IF_ERROR(read_options(fields, tokenizer, chat.options));
    if (most > 0) { chat.options.max_tokens = most; }
    chat.options.n = 1;
    PITH_RETURN_IF_ERROR(check_one_form(chat));
    request.told = told_again(fields, request);
    return request;
}

}  // namespace pith::serve
