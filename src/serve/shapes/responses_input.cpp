// responses_input.cpp - items to messages. Stage: serve.
#include "serve/shapes/responses_input.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "core/text.h"
#include "serve/shapes/tools.h"

namespace pith::serve {
namespace {

constexpr auto kTextParts = std::to_array<std::string_view>({"input_text", "output_text", "text"});
constexpr auto kThoughtParts = std::to_array<std::string_view>({"reasoning_text", "summary_text", "text"});

void add_line(std::string & text, const std::string & more) {
    if (!text.empty() && !more.empty()) { text += '\n'; }
    text += more;
}

// A text, or parts of text, one under the other. nullptr: nothing.
Result<std::string> text_of(const Json * value, std::span<const std::string_view> types, const std::string & place) {
    if (value == nullptr) { return std::string(); }
    if (value->is_string()) { return value->get<std::string>(); }
    if (!value->is_array()) { return wrong_field(place, *value, "a text, or a list of parts"); }
    std::string text;
    for (size_t i = 0; i < value->size(); ++i) {
        const std::string one = place + "[" + std::to_string(i) + "]";
        const Json & given = (*value)[i];
        if (!given.is_object()) { return wrong_field(one, given, "an object with a type"); }
        Fields part(given);
        std::string type;
        std::string piece;
        PITH_RETURN_IF_ERROR(part.read("type", type));
        if (type == "refusal") {
            PITH_RETURN_IF_ERROR(part.read("refusal", piece));
        } else if (std::ranges::find(types, type) != types.end()) {
            PITH_RETURN_IF_ERROR(part.read("text", piece));
        } else {
            return {ErrorCode::kUnsupported, field(one) + " is of type " + pith::quoted(type) + ": Pith reads text only"};
        }
        add_line(text, piece);
    }
    return text;
}

class InputReader {
public:
    explicit InputReader(ChatRequest & request) : request_(request) {}

    void add(ChatMessage message, const std::string & place) {
        request_.messages.push_back(std::move(message));
        request_.places.push_back(place);
    }

    Status read(const Json & item, const std::string & place) {
        if (!item.is_object()) { return wrong_field(place, item, "an object with a type"); }
        Fields fields(item);
        std::string type = "message";
        PITH_RETURN_IF_ERROR(fields.read("type", type));
        if (type == "message") { return read_message(fields, place); }
        if (type == "reasoning") { return read_thought(fields, place); }
        if (type == "function_call" || type == "custom_tool_call") { return read_call(fields, type, place); }
        if (type == "function_call_output" || type == "custom_tool_call_output") { return read_result(fields, place); }
        if (type == "web_search_call") { return {}; }  // that one took place says nothing of what it found
        if (type == "item_reference") {
            return {ErrorCode::kUnsupported,
                    field(place) + " is of type 'item_reference': the server stores nothing, send the item itself"};
        }
        return {ErrorCode::kUnsupported,
                field(place) + " is of type " + pith::quoted(type) +
                    ": Pith reads messages, reasoning, calls of functions and custom tools, and what they returned"};
    }

    // A thought that nothing follows was broken off.
    void end_answer() {
        if (!calls_.empty()) { answer_.tool_calls = dump(calls_); }
        if (!answer_.content.empty() || !answer_.tool_calls.empty() || has_said_) { add(std::move(answer_), "input"); }
        answer_ = {"assistant", ""};
        calls_ = Json::array();
        has_said_ = false;
    }

private:
    Status read_message(Fields & fields, const std::string & place) {
        std::string role;
        PITH_RETURN_IF_ERROR(fields.read("role", role));
        if (role == "developer") { role = "system"; }  // its newer name
        if (role != "user" && role != "system" && role != "assistant") {
            return wrong(field(place) + " has the role " + pith::quoted(role) + ": give user, system, developer or assistant");
        }
        const Json * content = fields.find("content");
        if (content == nullptr) { return wrong(field(place) + " has no content"); }
        PITH_ASSIGN_OR_RETURN(std::string text, text_of(content, kTextParts, place + ".content"));
        if (role == "assistant") {
            add_line(answer_.content, text);
            has_said_ = true;
            return {};
        }
        end_answer();
        add({role, std::move(text)}, place);
        return {};
    }

    // Its text where there is one, else what was told of it. What only OpenAI can read is nothing here.
    Status read_thought(Fields & fields, const std::string & place) {
        PITH_ASSIGN_OR_RETURN(std::string text, text_of(fields.find("content"), kThoughtParts, place + ".content"));
        PITH_ASSIGN_OR_RETURN(const std::string summary, text_of(fields.find("summary"), kThoughtParts, place + ".summary"));
        add_line(answer_.reasoning, text.empty() ? summary : text);
        return {};
    }

    Status read_call(Fields & fields, const std::string & type, const std::string & place) {
        std::string id;
        std::string name;
        std::string space;
        PITH_RETURN_IF_ERROR(fields.read("call_id", id));
        PITH_RETURN_IF_ERROR(fields.read("name", name));
        PITH_RETURN_IF_ERROR(fields.read("namespace", space));
        if (id.empty()) { return wrong(field(place) + " has no call_id"); }
        if (name.empty()) { return wrong(field(place) + " has no name"); }
        std::string arguments;
        if (type == "function_call") {
            PITH_ASSIGN_OR_RETURN(arguments, arguments_in(fields.find("arguments"), place + ".arguments"));
        } else {
            PITH_RETURN_IF_ERROR(fields.read("input", arguments));
            arguments = arguments_of_text(arguments);
        }
        calls_.push_back(
            {{"id", id}, {"type", "function"}, {"function", {{"name", flat_name(space, name)}, {"arguments", arguments}}}});
        return {};
    }

    Status read_result(Fields & fields, const std::string & place) {
        ChatMessage result = {"tool", ""};
        PITH_RETURN_IF_ERROR(fields.read("call_id", result.tool_call_id));
        if (result.tool_call_id.empty()) { return wrong(field(place) + " has no call_id"); }
        PITH_ASSIGN_OR_RETURN(result.content, text_of(fields.find("output"), kTextParts, place + ".output"));
        end_answer();
        add(std::move(result), place);
        return {};
    }

    ChatRequest & request_;
    ChatMessage answer_ = {"assistant", ""};  // that is being put together
    Json calls_ = Json::array();              // of it
    bool has_said_ = false;                   // even if that was an empty text
};

}  // namespace

Status read_input(const Json & input, const std::string & instructions, ChatRequest & request) {
    InputReader reader(request);
    if (!instructions.empty()) { reader.add({"system", instructions}, "instructions"); }
    if (input.is_string()) {
        reader.add({"user", input.get<std::string>()}, "input");
        return {};
    }
    if (!input.is_array()) { return wrong_field("input", input, "a text, or a list of items"); }
    if (input.empty()) { return wrong(field("input") + " is empty: give at least one item"); }
    for (size_t i = 0; i < input.size(); ++i) {
        PITH_RETURN_IF_ERROR(reader.read(input[i], "input[" + std::to_string(i) + "]"));
    }
    reader.end_answer();
    return request.messages.empty() ? wrong(field("input") + " says nothing: give a message") : Status();
}

}  // namespace pith::serve
