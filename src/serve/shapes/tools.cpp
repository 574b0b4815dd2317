// tools.cpp - functions out of a body. Stage: serve.
#include "serve/shapes/tools.h"

#include <algorithm>
#include <cctype>

#include "core/text.h"

namespace pith::serve {
namespace {

constexpr size_t kMostTools = 128;
constexpr size_t kMostName = 64;

bool is_function_name(const std::string & name) {
    return !name.empty() && name.size() <= kMostName && std::ranges::all_of(name, [](char c) {
        return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-' || c == '.';
    });
}

Status read_tool(const Json & value, const std::string & place, ToolsRequest & tools) {
    if (!value.is_object()) { return wrong_field(place, value, "an object with type and function"); }
    Fields fields(value);
    std::string type;
    PITH_RETURN_IF_ERROR(fields.read("type", type));
    if (type != "function") {
        return {ErrorCode::kUnsupported,
                pith::quoted(place) + " is of type " + pith::quoted(type) + ": Pith calls functions only"};
    }
    const Json * function = fields.find("function");
    if (function == nullptr || !function->is_object()) { return wrong(field(place) + " has no object 'function'"); }
    Fields inner(*function);
    std::string name;
    std::string description;
    bool strict = false;
    PITH_RETURN_IF_ERROR(inner.read("name", name));
    PITH_RETURN_IF_ERROR(inner.read("description", description));
    PITH_RETURN_IF_ERROR(inner.read("strict", strict));
    return add_tool(place, name, description, inner.find("parameters"), strict, tools);
}

Status read_choice(const Json & choice, ToolsRequest & tools) {
    const std::string wanted = "\"none\", \"auto\", \"required\" or {\"type\": \"function\", \"function\": {\"name\": …}}";
    if (choice == "none") {
        tools.clear();
        return {};
    }
    if (choice == "auto") { return {}; }
    if (choice == "required") {
        if (!tools.any()) { return wrong(field("tool_choice") + " is \"required\", and there are no 'tools'"); }
        tools.must_call = true;
        return {};
    }
    if (!choice.is_object()) { return wrong_field("tool_choice", choice, wanted); }
    const auto function = choice.find("function");
    const bool named = function != choice.end() && function->is_object() && function->value("name", Json()).is_string();
    if (!named) { return wrong_field("tool_choice", choice, wanted); }
    return tools.choose((*function)["name"].get<std::string>());
}

}  // namespace

Status ToolsRequest::choose(const std::string & name) {
    const auto found = std::ranges::find(functions, name, &ToolFunction::name);
    if (found == functions.end()) {
        return wrong(field("tool_choice") + " names " + pith::quoted(name) + ", which is none of 'tools'");
    }
    functions = {ToolFunction(*found)};
    must_call = true;
    only_one = true;
    return {};
}

Status add_tool(const std::string & place, const std::string & name, const std::string & description, const Json * parameters,
                bool strict, ToolsRequest & tools) {
    if (!is_function_name(name)) {
        return wrong(field(place) + " has the name " + pith::quoted(name) + ": give 1 to 64 letters, digits, '_', '-' or '.'");
    }
    if (std::ranges::find(tools.functions, name, &ToolFunction::name) != tools.functions.end()) {
        return wrong(field(place) + " has the name " + pith::quoted(name) + " a second time");
    }
    if (parameters != nullptr && !parameters->is_object()) {
        return wrong_field(place + ".parameters", *parameters, "a JSON schema");
    }
    const Json schema = parameters != nullptr ? *parameters : Json{{"type", "object"}, {"properties", Json::object()}};
    const Json tool = {{"type", "function"},
                       {"function", {{"name", name}, {"description", description}, {"parameters", schema}}}};
    if (tools.json.empty()) {
        tools.json = "[";
    } else {
        tools.json.back() = ',';  // behind the tools before it, which may be long: they are not read again
    }
    tools.json += dump(tool) + "]";
    tools.functions.push_back({name, parameters != nullptr ? dump(schema) : "", strict});
    return {};
}

Status each_tool(Fields & fields, const std::function<Status(const Json & tool, const std::string & place)> & read) {
    const Json * list = fields.find("tools");
    if (list == nullptr) { return {}; }
    if (!list->is_array()) { return wrong_field("tools", *list, "a list of functions"); }
    if (list->size() > kMostTools) {
        return wrong(field("tools") + " has " + std::to_string(list->size()) + " functions: give " +
                     std::to_string(kMostTools) + " at most");
    }
    for (size_t i = 0; i < list->size(); ++i) { PITH_RETURN_IF_ERROR(read((*list)[i], "tools[" + std::to_string(i) + "]")); }
    return {};
}

Status read_tools(Fields & fields, ToolsRequest & tools) {
    PITH_RETURN_IF_ERROR(
        each_tool(fields, [&](const Json & tool, const std::string & place) { return read_tool(tool, place, tools); }));
    bool parallel = true;
    PITH_RETURN_IF_ERROR(fields.read("parallel_tool_calls", parallel));
    tools.only_one = !parallel;
    const Json * choice = fields.find("tool_choice");
    return choice == nullptr ? Status() : read_choice(*choice, tools);
}

Status check_tool_calls(const Json & calls, const std::string & place) {
    if (!calls.is_array()) { return wrong_field(place, calls, "a list of calls"); }
    for (size_t i = 0; i < calls.size(); ++i) {
        const std::string one = place + "[" + std::to_string(i) + "]";
        const auto function = calls[i].is_object() ? calls[i].find("function") : calls[i].end();
        if (!calls[i].is_object() || function == calls[i].end() || !function->is_object()) {
            return wrong_field(one, calls[i], "an object with id, type and function");
        }
        if (!function->value("name", Json()).is_string()) { return wrong(field(one) + " has no function.name"); }
        const auto arguments = function->find("arguments");
        if (arguments != function->end() && !arguments->is_string() && !arguments->is_object()) {
            return wrong_field(one + ".function.arguments", *arguments, "a text that holds JSON");
        }
    }
    return {};
}

}  // namespace pith::serve
