// tools.cpp - functions out of a body. Stage: serve.
#include "serve/shapes/tools.h"

#include <algorithm>
#include <cctype>

#include "core/json_syntax.h"
#include "core/text.h"

namespace pith::serve {
namespace {

constexpr size_t kMostFunctions = 512;  // those in groups included
constexpr size_t kMostName = 128;
constexpr const char * kTextParameter = "input";

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

// {"function": {"name"}}; none: it is something else.
std::optional<std::string> named_function(const Json & value) {
    const auto function = value.is_object() ? value.find("function") : value.end();
    const bool named =
        value.is_object() && function != value.end() && function->is_object() && function->value("name", Json()).is_string();
    return named ? std::optional((*function)["name"].get<std::string>()) : std::nullopt;
}

// {"mode", "tools": [{"type": "function", "function": {"name"}}, …]}
Status read_allowed(const Json * allowed, ToolsRequest & tools) {
    const std::string place = "tool_choice.allowed_tools";
    if (allowed == nullptr || !allowed->is_object()) { return wrong(field(place) + " is no object with mode and tools"); }
    Fields fields(*allowed);
    const NameOfTool name_of = [&](const Json & one, const std::string &) -> Result<std::optional<std::string>> {
        const auto name = named_function(one);
        if (!name) { return wrong_field(place + ".tools", one, "{\"type\": \"function\", \"function\": {\"name\": …}}"); }
        return name;
    };
    return read_allowed_tools(fields, place, name_of, tools);
}

Status read_choice(const Json & choice, ToolsRequest & tools) {
    const std::string wanted = "\"none\", \"auto\", \"required\" or {\"type\": \"function\", \"function\": {\"name\": …}}";
    PITH_ASSIGN_OR_RETURN(const bool is_word, read_choice_word(choice, tools));
    if (is_word) { return {}; }
    if (!choice.is_object()) { return wrong_field("tool_choice", choice, wanted); }
    Fields fields(choice);
    if (const Json * type = fields.find("type"); type != nullptr && *type == "allowed_tools") {
        return read_allowed(fields.find("allowed_tools"), tools);
    }
    const auto name = named_function(choice);
    return name ? tools.choose(*name) : wrong_field("tool_choice", choice, wanted);
}

}  // namespace

Result<bool> read_choice_word(const Json & choice, ToolsRequest & tools) {
    if (choice == "none") { tools.clear(); }
    if (choice == "required") { PITH_RETURN_IF_ERROR(tools.require("\"required\"")); }
    return choice == "none" || choice == "required" || choice == "auto";
}

Status read_allowed_tools(Fields & fields, const std::string & place, const NameOfTool & name_of, ToolsRequest & tools) {
    std::string mode = "auto";
    PITH_RETURN_IF_ERROR(fields.read("mode", mode));
    if (mode != "auto" && mode != "required") { return wrong_field(place + ".mode", mode, "auto or required"); }
    const std::string of_list = place + ".tools";
    const Json * list = fields.find("tools");
    if (list == nullptr || !list->is_array()) {
        return wrong(field(of_list) + " is no list: name the tools that may be called");
    }
    std::vector<std::string> names;
    for (size_t i = 0; i < list->size(); ++i) {
        PITH_ASSIGN_OR_RETURN(const auto name, name_of((*list)[i], of_list + "[" + std::to_string(i) + "]"));
        if (name) { names.push_back(*name); }
    }
    PITH_RETURN_IF_ERROR(tools.allow(names, of_list));
    return mode == "required" ? tools.require("of mode 'required'") : Status();
}

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

Status ToolsRequest::allow(const std::vector<std::string> & names, std::string_view place) {
    std::vector<ToolFunction> allowed;
    for (const std::string & name : names) {
        const auto found = std::ranges::find(functions, name, &ToolFunction::name);
        if (found == functions.end()) {
            return wrong(field(place) + " names " + pith::quoted(name) + ", which is none of 'tools'");
        }
        if (std::ranges::find(allowed, name, &ToolFunction::name) == allowed.end()) { allowed.push_back(*found); }
    }
    functions = std::move(allowed);
    return {};
}

Status ToolsRequest::require(std::string_view wish) {
    if (!any()) { return wrong(field("tool_choice") + " is " + std::string(wish) + ", and there are no 'tools'"); }
    must_call = true;
    return {};
}

Status add_tool(const std::string & place, const std::string & name, const std::string & description, const Json * parameters,
                bool strict, ToolsRequest & tools) {
    if (!is_function_name(name)) {
        return wrong(field(place) + " has the name " + pith::quoted(name) + ": give 1 to " + std::to_string(kMostName) +
                     " letters, digits, '_', '-' or '.'");
    }
    if (tools.functions.size() >= kMostFunctions) {
        return wrong(field(place) + " is one function too many: give " + std::to_string(kMostFunctions) + " at most");
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

Status add_text_tool(const std::string & place, const std::string & name, const std::string & description, const Json * format,
                     const ToolOrigin & origin, ToolsRequest & tools) {
    std::string told = description;
    if (format != nullptr) {
        if (!format->is_object()) { return wrong_field(place + ".format", *format, "an object with a type"); }
        Fields fields(*format);
        std::string type;
        std::string syntax;
        std::string definition;
        PITH_RETURN_IF_ERROR(fields.read("type", type));
        PITH_RETURN_IF_ERROR(fields.read("syntax", syntax));
        PITH_RETURN_IF_ERROR(fields.read("definition", definition));
        if (type != "text" && type != "grammar") {
            return wrong_field(place + ".format", *format, "a type of text or grammar");
        }
        // Shown, not enforced: it is no grammar that Pith follows.
        if (!definition.empty()) { told += "\n\nThe input keeps to this grammar (" + syntax + "):\n" + definition; }
    }
    const Json schema = {{"type", "object"},
                         {"properties", {{kTextParameter, {{"type", "string"}}}}},
                         {"required", {kTextParameter}},
                         {"additionalProperties", false}};
    PITH_RETURN_IF_ERROR(add_tool(place, name, told, &schema, /*strict=*/false, tools));
    tools.origins[name] = origin;
    return {};
}

std::string arguments_of_text(const std::string & text) {
    return dump({{kTextParameter, text}});
}

std::string text_in_arguments(const std::string & arguments) {
    const Json read = json_problem(arguments).empty() ? Json::parse(arguments, nullptr, /*allow_exceptions=*/false) : Json();
    if (!read.is_object()) { return arguments; }
    const auto text = read.find(kTextParameter);
    return text != read.end() && text->is_string() ? text->get<std::string>() : arguments;
}

std::string text_begun_in_arguments(const std::string & arguments) {
    if (json_problem(arguments).empty()) { return text_in_arguments(arguments); }
    constexpr std::string_view kBlank = " \t\r\n";
    size_t at = arguments.find_first_not_of(kBlank);
    const std::string name = '"' + std::string(kTextParameter) + '"';
    for (const std::string & expected : {std::string("{"), name, std::string(":"), std::string("\"")}) {
        if (at == std::string::npos || arguments.compare(at, expected.size(), expected) != 0) { return {}; }
        at += expected.size();
        if (expected != "\"") { at = arguments.find_first_not_of(kBlank, at); }
    }
    // What the cut left of an escape, of a character, or behind the text.
    const std::string text = arguments.substr(at);
    constexpr size_t kMostCut = 40;
    for (size_t n = 0; n <= std::min(text.size(), kMostCut); ++n) {
        const std::string whole = '"' + text.substr(0, text.size() - n) + '"';
        if (!json_problem(whole).empty()) { continue; }
        const Json read = Json::parse(whole, nullptr, /*allow_exceptions=*/false);
        if (read.is_string()) { return read.get<std::string>(); }
    }
    return {};
}

std::string flat_name(const std::string & space, const std::string & name) {
    constexpr std::string_view kBetween = "__";
    if (space.empty()) { return name; }
    return space.ends_with(kBetween) ? space + name : space + std::string(kBetween) + name;
}

Status each_tool(Fields & fields, const std::function<Status(const Json & tool, const std::string & place)> & read) {
    const Json * list = fields.find("tools");
    if (list == nullptr) { return {}; }
    if (!list->is_array()) { return wrong_field("tools", *list, "a list of functions"); }
    if (list->size() > kMostFunctions) {
        return wrong(field("tools") + " has " + std::to_string(list->size()) + " functions: give " +
                     std::to_string(kMostFunctions) + " at most");
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

Result<std::string> arguments_in(const Json * value, const std::string & place) {
    const std::string none = "{}";
    if (value == nullptr) { return none; }
    if (value->is_object()) { return dump(*value); }
    if (!value->is_string()) { return wrong_field(place, *value, "an object, or a text that holds one"); }
    const auto & text = value->get_ref<const std::string &>();
    return trim(text).empty() || trim(text) == "null" ? none : text;
}

Result<std::string> read_tool_calls(const Json & calls, const std::string & place) {
    if (!calls.is_array()) { return wrong_field(place, calls, "a list of calls"); }
    Json read = calls;
    for (size_t i = 0; i < read.size(); ++i) {
        const std::string one = place + "[" + std::to_string(i) + "]";
        const auto function = read[i].is_object() ? read[i].find("function") : read[i].end();
        if (!read[i].is_object() || function == read[i].end() || !function->is_object()) {
            return wrong_field(one, read[i], "an object with id, type and function");
        }
        if (!function->value("name", Json()).is_string()) { return wrong(field(one) + " has no function.name"); }
        const auto given = function->find("arguments");
        const bool has = given != function->end() && !given->is_null();
        if (has && given->is_object()) { continue; }
        PITH_ASSIGN_OR_RETURN((*function)["arguments"], arguments_in(has ? &*given : nullptr, one + ".function.arguments"));
    }
    return dump(read);
}

}  // namespace pith::serve
