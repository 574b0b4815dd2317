// tagged_call.cpp - names, keys and values between tags. Stage: text.
#include "text/tagged_call.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/json_syntax.h"
#include "core/text.h"
#include "text/argument_schema.h"
#include "text/tool_marks.h"

namespace pith {
namespace {

using Json = nlohmann::ordered_json;

// What stands in front of the mark, which is taken off the text with it. Nothing: there is no such mark.
std::optional<std::string_view> take_until(std::string_view & text, std::string_view mark) {
    const size_t at = text.find(mark);
    if (at == std::string_view::npos) { return std::nullopt; }
    const std::string_view before = text.substr(0, at);
    text.remove_prefix(at + mark.size());
    return before;
}

bool take(std::string_view & text, std::string_view mark) {
    if (!text.starts_with(mark)) { return false; }
    text.remove_prefix(mark.size());
    return true;
}

Json value_of(std::string_view written, bool is_text, bool or_null) {
    const std::string_view bare = trim(written);
    if (is_text && or_null && bare == "null") { return nullptr; }
    if (!is_text && json_problem(bare).empty()) {
        Json value = Json::parse(bare, nullptr, /*allow_exceptions=*/false);
        if (!value.is_discarded()) { return value; }
    }
    return std::string(written);
}

// Qwen3-Coder writes each value on lines of its own.
std::string_view without_its_lines(std::string_view value) {
    if (value.starts_with('\n')) { value.remove_prefix(1); }
    if (value.ends_with('\n')) { value.remove_suffix(1); }
    return value;
}

}  // namespace

ArgumentText argument_text(ToolForm form, const std::string & key) {
    if (form == ToolForm::kPairs) {
        return {std::string(tool_marks::kKeyOpen) + key + std::string(tool_marks::kKeyClose) + "\n" +
                    std::string(tool_marks::kValueOpen),
                std::string(tool_marks::kValueClose) + "\n"};
    }
    return {std::string(tool_marks::kParameterOpen) + key + ">\n", "\n" + std::string(tool_marks::kParameterClose) + "\n"};
}

bool is_argument_tag(ToolForm form, std::string_view name) {
    if (form != ToolForm::kPairs) { return false; }
    return name == tool_marks::kKeyOpen || name == tool_marks::kKeyClose || name == tool_marks::kValueOpen ||
           name == tool_marks::kValueClose;
}

std::optional<TaggedCall> read_tagged_call(ToolForm form, std::string_view inside, const TextParameters & texts) {
    TaggedCall call;
    std::string_view rest = trim(inside);
    const bool pairs = form == ToolForm::kPairs;
    if (pairs) {
        const size_t end = std::min(rest.find(tool_marks::kKeyOpen), rest.size());
        call.name = trim(rest.substr(0, end));
        rest.remove_prefix(end);
    } else {
        if (!take(rest, tool_marks::kFunctionOpen) || !rest.ends_with(tool_marks::kFunctionClose)) { return std::nullopt; }
        rest.remove_suffix(tool_marks::kFunctionClose.size());
        const auto name = take_until(rest, ">");
        if (!name) { return std::nullopt; }
        call.name = trim(*name);
    }
    if (call.name.empty() || call.name.find_first_of("<>{}\n") != std::string::npos) { return std::nullopt; }
    const auto known = texts.find(call.name);
    Json arguments = Json::object();
    for (rest = trim(rest); !rest.empty(); rest = trim(rest)) {
        if (!take(rest, pairs ? tool_marks::kKeyOpen : tool_marks::kParameterOpen)) { return std::nullopt; }
        const auto key = take_until(rest, pairs ? tool_marks::kKeyClose : ">");
        if (!key) { return std::nullopt; }
        if (pairs) {
            rest = trim(rest);
            if (!take(rest, tool_marks::kValueOpen)) { return std::nullopt; }
        }
        const auto value = take_until(rest, pairs ? tool_marks::kValueClose : tool_marks::kParameterClose);
        if (!value) { return std::nullopt; }
        const std::string name(trim(*key));
        const auto text = known == texts.end() ? TextsOfFunction::const_iterator() : known->second.find(name);
        const bool is_text = known != texts.end() && text != known->second.end();
        arguments[name] = value_of(pairs ? *value : without_its_lines(*value), is_text, is_text && text->second);
    }
    call.arguments = arguments.dump(-1, ' ', false, Json::error_handler_t::replace);
    return call;
}

TextsOfFunction text_parameters(std::string_view schema) {
    if (schema.empty() || !json_problem(schema).empty()) { return {}; }
    return texts_of_schema(Json::parse(schema, nullptr, /*allow_exceptions=*/false));
}

}  // namespace pith
