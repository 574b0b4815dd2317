// messages_request.cpp - blocks to messages. Stage: serve.
#include "serve/shapes/messages_request.h"
#include "serve/shapes/client_headers.h"

#include <algorithm>

#include "core/text.h"
#include "serve/shapes/completion_options.h"
#include "serve/shapes/fields.h"

namespace pith::serve {
namespace {

void add_line(std::string & text, const std::string & more) {
    if (!text.empty()) { text += '\n'; }
    text += more;
}

Status unknown_block(const std::string & place, const std::string & type) {
    return {ErrorCode::kUnsupported, pith::quoted(place) + " is of type " + pith::quoted(type) + ": Pith reads text only"};
}

// A text, or blocks of text, one under the other.
Result<std::string> text_of_blocks(const Json & value, const std::string & place) {
    if (value.is_string()) { return value.get<std::string>(); }
    if (!value.is_array()) { return wrong_field(place, value, "a text, or a list of blocks"); }
    std::string text;
    for (size_t i = 0; i < value.size(); ++i) {
        const std::string one = place + "[" + std::to_string(i) + "]";
        if (!value[i].is_object()) { return wrong_field(one, value[i], "an object with a type"); }
        Fields block(value[i]);
        std::string type;
        std::string piece;
        PITH_RETURN_IF_ERROR(block.read("type", type));
        if (type != "text") { return unknown_block(one, type); }
        PITH_RETURN_IF_ERROR(block.read("text", piece));
        add_line(text, piece);
    }
    return text;
}

// What the blocks of one message come to: results of tools first, each a message of its own.
struct BlockReader {
    std::vector<ChatMessage> results;
    ChatMessage message;
    Json calls = Json::array();

    Status read(const Json & value, const std::string & place) {
        if (!value.is_object()) { return wrong_field(place, value, "an object with a type"); }
        Fields block(value);
        std::string type;
        PITH_RETURN_IF_ERROR(block.read("type", type));
        std::string text;
        if (type == "text") {
            PITH_RETURN_IF_ERROR(block.read("text", text));
            add_line(message.content, text);
            return {};
        }
        if (type == "thinking") {
            PITH_RETURN_IF_ERROR(block.read("thinking", text));
            add_line(message.reasoning, text);
            return {};
        }
        if (type == "redacted_thinking") { return {}; }
        if (type == "tool_use" && message.role == "assistant") {
            std::string id;
            std::string name;
            PITH_RETURN_IF_ERROR(block.read("id", id));
            PITH_RETURN_IF_ERROR(block.read("name", name));
            if (name.empty()) { return wrong(field(place) + " has no name"); }
            const Json * input = block.find("input");
            if (input != nullptr && !input->is_object()) { return wrong_field(place + ".input", *input, "an object"); }
            calls.push_back({{"id", id},
                             {"type", "function"},
                             {"function", {{"name", name}, {"arguments", input != nullptr ? dump(*input) : "{}"}}}});
            return {};
        }
        if (type == "tool_result" && message.role == "user") {
            ChatMessage result = {"tool", ""};
            PITH_RETURN_IF_ERROR(block.read("tool_use_id", result.tool_call_id));
            if (const Json * content = block.find("content")) {
                PITH_ASSIGN_OR_RETURN(result.content, text_of_blocks(*content, place + ".content"));
            }
            bool is_error = false;
            PITH_RETURN_IF_ERROR(block.read("is_error", is_error));
            if (is_error) { result.content.insert(0, "Error: "); }
            results.push_back(std::move(result));
            return {};
        }
        return unknown_block(place, type);
    }
};

Status read_message(const Json & value, const std::string & place, std::vector<ChatMessage> & messages) {
    if (!value.is_object()) { return wrong_field(place, value, "an object with role and content"); }
    Fields fields(value);
    BlockReader reader;
    PITH_RETURN_IF_ERROR(fields.read("role", reader.message.role));
    const std::string & role = reader.message.role;
    if (role != "user" && role != "assistant" && role != "system") {
        return wrong(field(place) + " has the role " + pith::quoted(role) + ": give user, assistant or system");
    }
    const Json * content = fields.find("content");
    if (content == nullptr) { return wrong(field(place) + " has no content"); }
    if (content->is_string()) {
        reader.message.content = content->get<std::string>();
    } else if (content->is_array()) {
        for (size_t i = 0; i < content->size(); ++i) {
            PITH_RETURN_IF_ERROR(reader.read((*content)[i], place + ".content[" + std::to_string(i) + "]"));
        }
    } else {
        return wrong_field(place + ".content", *content, "a text, or a list of blocks");
    }
    if (!reader.calls.empty()) { reader.message.tool_calls = dump(reader.calls); }
    const bool only_results = !reader.results.empty() && reader.message.content.empty();
    std::ranges::move(reader.results, std::back_inserter(messages));
    if (!only_results) { messages.push_back(std::move(reader.message)); }
    return {};
}

// A tool that some server of Anthropic's runs has a type of its own, and no schema.
Status read_anthropic_tool(const Json & value, const std::string & place, ToolsRequest & tools) {
    if (!value.is_object()) { return wrong_field(place, value, "an object with name and input_schema"); }
    Fields tool(value);
    std::string type = "custom";
    std::string name;
    std::string description;
    PITH_RETURN_IF_ERROR(tool.read("type", type));
    PITH_RETURN_IF_ERROR(tool.read("name", name));
    PITH_RETURN_IF_ERROR(tool.read("description", description));
    if (type != "custom") {
        return {ErrorCode::kUnsupported,
                pith::quoted(place) + " is of type " + pith::quoted(type) + ": Pith calls tools of yours only"};
    }
    return add_tool(place, name, description, tool.find("input_schema"), /*strict=*/false, tools);
}

Status read_anthropic_tools(Fields & fields, ToolsRequest & tools) {
    PITH_RETURN_IF_ERROR(each_tool(
        fields, [&](const Json & tool, const std::string & place) { return read_anthropic_tool(tool, place, tools); }));
    const Json * choice = fields.find("tool_choice");
    if (choice == nullptr) { return {}; }
    if (!choice->is_object()) { return wrong_field("tool_choice", *choice, "an object with a type"); }
    Fields how(*choice);
    std::string type;
    std::string name;
    bool only_one = false;
    PITH_RETURN_IF_ERROR(how.read("type", type));
    PITH_RETURN_IF_ERROR(how.read("name", name));
    PITH_RETURN_IF_ERROR(how.read("disable_parallel_tool_use", only_one));
    tools.only_one = only_one;
    if (type == "none") {
        tools.clear();
    } else if (type == "any") {
        if (!tools.any()) { return wrong(field("tool_choice") + " is of type 'any', and there are no 'tools'"); }
        tools.must_call = true;
    } else if (type == "tool") {
        return tools.choose(name);
    } else if (type != "auto") {
        return wrong_field("tool_choice", *choice, "a type of auto, any, tool or none");
    }
    return {};
}

// Each would change the answer: what runs elsewhere, and what takes parts out of the conversation.
constexpr std::string_view kElsewhere[] = {"mcp_servers", "container", "compaction"};

// Whether an edit of the context leaves it as it is.
bool changes_nothing(const Json & edit) {
    const auto text_of = [&edit](const char * name) {
        return edit.is_object() && edit.contains(name) && edit[name].is_string() ? edit[name].get<std::string>()
                                                                                 : std::string();
    };
    return text_of("type").starts_with("clear_thinking_") && text_of("keep") == "all";
}

Status check_followed(Fields & fields) {
    for (const std::string_view name : kElsewhere) {
        const Json * value = fields.find(name);
        if (value == nullptr || (value->is_structured() && value->empty())) { continue; }
        return {ErrorCode::kUnsupported, field(name) + " is not supported: leave it out"};
    }
    const Json * management = fields.find("context_management");
    if (management == nullptr) { return {}; }
    if (!management->is_object()) { return wrong_field("context_management", *management, "an object with edits"); }
    Fields inner(*management);
    const Json * edits = inner.find("edits");
    if (edits == nullptr || (edits->is_array() && std::ranges::all_of(*edits, changes_nothing))) { return {}; }
    return {ErrorCode::kUnsupported,
            field("context_management") + " is not supported: this server takes nothing out of a conversation; leave it out"};
}

Status read_output_config(Fields & fields, ChatRequest & request) {
    const Json * config = fields.find("output_config");
    if (config == nullptr) { return {}; }
    if (!config->is_object()) { return wrong_field("output_config", *config, "an object with format and effort"); }
    Fields inner(*config);
    return inner.read("effort", request.effort);
}

// output_config.format, or output_format as it was called first.
Status follow_output_format(Fields & fields, CompletionOptions & options) {
    const Json * config = fields.find("output_config");
    const Json * older = fields.find("output_format");
    const Json * format =
        config != nullptr && config->contains("format") && !(*config)["format"].is_null() ? &(*config)["format"] : nullptr;
    if (format != nullptr && older != nullptr) {
        return wrong(field("output_format") + " and 'output_config.format': give one of them");
    }
    if (format != nullptr) { return follow_format(fields, *format, "output_config.format", options); }
    return older != nullptr ? follow_format(fields, *older, "output_format", options) : Status();
}

Status read_messages_fields(Fields & fields, const Tokenizer & tokenizer, ChatRequest & request) {
    PITH_RETURN_IF_ERROR(check_followed(fields));
    if (const Json * system = fields.find("system")) {
        PITH_ASSIGN_OR_RETURN(std::string text, text_of_blocks(*system, "system"));
        leave_out_client_headers(text);
        if (!text.empty()) {
            request.messages.push_back({"system", std::move(text)});
            request.places.emplace_back("system");
        }
    }
    const Json * list = nullptr;
    PITH_RETURN_IF_ERROR(fields.read_messages(list));
    for (size_t i = 0; i < list->size(); ++i) {
        const std::string place = "messages[" + std::to_string(i) + "]";
        PITH_RETURN_IF_ERROR(read_message((*list)[i], place, request.messages));
        request.places.resize(request.messages.size(), place);
    }
    PITH_RETURN_IF_ERROR(read_anthropic_tools(fields, request.tools));
    PITH_RETURN_IF_ERROR(read_template_fields(fields, request));
    PITH_RETURN_IF_ERROR(read_output_config(fields, request));
    const bool takes_enable = tokenizer.chat_template().find("enable_thinking") != std::string::npos;
    const Json * thinking = fields.find("thinking");
    if (thinking == nullptr) {
        // Nobody has asked for thoughts, and clients written for this API read an answer's first block as its text.
        const bool is_told = !request.effort.empty() || fields.has("chat_template_kwargs") || fields.has("reasoning_format");
        if (is_told) { return {}; }
        request.options.hides_reasoning = true;
        if (takes_enable) { request.variables_unless_told = dump({{"enable_thinking", false}}); }
        return {};
    }
    if (!thinking->is_object()) { return wrong_field("thinking", *thinking, "an object with a type"); }
    Fields inner(*thinking);
    std::string type;
    PITH_RETURN_IF_ERROR(inner.read("type", type));
    const bool is_off = type == "disabled";
    if (is_off) { request.options.hides_reasoning = true; }  // of models that cannot leave it
    if (!takes_enable) { return {}; }
    Json variables = request.variables.empty() ? Json::object() : Json::parse(request.variables);
    variables["enable_thinking"] = !is_off;
    request.variables = dump(variables);
    return {};
}

}  // namespace

std::optional<ApiError> refused_thread(const Json & body) {
    if (!body.contains("thread") || body["thread"].is_null()) { return {}; }
    ApiError error = invalid_request("'thread' is not supported: this server keeps no conversations; send all messages");
    error.param = "thread";
    error.more = {{"details", {{"error_code", "thread_unsupported_request"}, {"unsupported", {"thread"}}}}};
    return error;
}

Result<ChatRequest> parse_messages_request(const Json & body, const CompletionOptions & defaults, const Tokenizer & tokenizer) {
    Fields fields(body);
    ChatRequest request;
    request.options = defaults;
    PITH_RETURN_IF_ERROR(read_messages_fields(fields, tokenizer, request));
    if (!fields.has("max_tokens")) {
        return wrong(field("max_tokens") + " is missing: give the most tokens that an answer may have");
    }
    std::vector<std::string> stops;
    PITH_RETURN_IF_ERROR(fields.read("stop_sequences", stops));
    PITH_RETURN_IF_ERROR(follow_output_format(fields, request.options));
    PITH_RETURN_IF_ERROR(read_options(fields, tokenizer, request.options));
    PITH_RETURN_IF_ERROR(check_one_form(request));
    std::ranges::copy_if(stops, std::back_inserter(request.options.stop),
                         [](const std::string & text) { return !text.empty(); });
    PITH_RETURN_IF_ERROR(check_texts("stop_sequences", request.options.stop));
    request.options.n = 1;
    return request;
}

Result<ChatRequest> parse_count_request(const Json & body, const Tokenizer & tokenizer) {
    Fields fields(body);
    ChatRequest request;
    PITH_RETURN_IF_ERROR(read_messages_fields(fields, tokenizer, request));
    return request;
}

}  // namespace pith::serve
