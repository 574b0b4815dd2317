// call_object.cpp - braces, keys, and what stands behind the two that matter. Stage: text.
#include "text/call_object.h"

#include <cstdio>
#include <nlohmann/json.hpp>
#include <string_view>

#include "core/json_syntax.h"
#include "core/text.h"
#include "text/tool_marks.h"

namespace pith {
namespace {

using Json = nlohmann::ordered_json;

bool is_of_scalar(char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || c == 'E' || c == '+' || c == '-' || c == '.';
}

Json parsed(std::string_view text) {
    if (!json_problem(text).empty()) { return Json(Json::value_t::discarded); }
    return Json::parse(text, nullptr, /*allow_exceptions=*/false);
}

// Models that echo a function's description write a schema where arguments belong.
bool is_schema(const Json & arguments) {
    return arguments.contains("properties") && arguments["properties"].is_object() && arguments.contains("type") &&
           arguments["type"] == "object";
}

}  // namespace

void add_in_json_string(char c, bool escaped, std::string & json) {
    if (static_cast<unsigned char>(c) >= 0x20) {
        json += c;
        return;
    }
    if (escaped) { json += '\\'; }  // a backslash at the end of a line, as shells have it
    char code[8];
    std::snprintf(code, sizeof code, "\\u%04x", static_cast<unsigned>(static_cast<unsigned char>(c)));
    json += code;
}

CallObject::Key CallObject::kind_of(const std::string & key) {
    if (key == "name" || key == "tool" || key == "tool_name" || key == "function_name") { return Key::kName; }
    if (key == "arguments" || key == "parameters" || key == "args" || key == "input") { return Key::kArguments; }
    if (key == "function" || key == "tool_call" || key == "function_call") { return Key::kWrapper; }  // or a name
    if (key == "type" || key == "id" || key == "index" || key == "call_id" || key == "tool_call_id") { return Key::kOther; }
    return Key::kNone;
}

bool CallObject::begin_value(char c) {
    if (expects_ != Expects::kValue) { return false; }
    const Key kind = kind_of(key_);
    if (kind == Key::kArguments) {
        if (c == '[' || has_arguments_) { return false; }
        arguments_at_ = text_.size();
        return true;
    }
    if (c == '{') {
        if (kind != Key::kWrapper || level_ != 1 || has_name_) { return false; }
        level_ = 2;
        return true;
    }
    return c != '[';
}

bool CallObject::open(char c) {
    if (c == '{' && just_open_) { return true; }  // doubled
    if (depth() > 0 && at_call() && !begin_value(c)) { return false; }
    open_ += c;
    text_ += c;
    just_open_ = c == '{';
    if (at_call()) { expects_ = Expects::kKey; }
    return true;
}

void CallObject::end_value() {
    expects_ = Expects::kNext;
    in_scalar_ = false;
    if (kind_of(key_) == Key::kArguments && depth() == level_) {
        has_arguments_ = true;
        arguments_end_ = text_.size();
    }
}

bool CallObject::close(char c) {
    if (open_.back() != (c == '}' ? '{' : '[')) { return false; }
    if (at_call()) {
        const bool is_empty = expects_ == Expects::kKey && just_open_;
        if (in_scalar_) { end_value(); }
        if (expects_ != Expects::kNext && !is_empty) { return false; }
    }
    const bool ends_call = depth() == level_;
    open_.pop_back();
    text_ += c;
    just_open_ = false;
    if (ends_call) {
        level_ = 1;
        key_.clear();
        expects_ = Expects::kNext;
    } else if (at_call()) {
        end_value();
    }
    return true;
}

bool CallObject::end_string(const std::set<std::string> & names) {
    in_string_ = false;
    if (!at_call()) { return true; }
    const bool is_key = expects_ == Expects::kKey;
    const Key kind = kind_of(key_);
    if (!is_key && kind != Key::kName && kind != Key::kWrapper) {
        end_value();
        return true;
    }
    const Json text = parsed(std::string_view(text_).substr(string_at_));
    if (!text.is_string()) { return false; }
    if (is_key) {
        key_ = text.get<std::string>();
        expects_ = Expects::kColon;
        return kind_of(key_) != Key::kNone;
    }
    if (has_name_ || !names.contains(text.get<std::string>())) { return false; }
    name_ = text.get<std::string>();
    has_name_ = true;
    end_value();
    return true;
}

void CallObject::add_in_string(char c) {
    add_in_json_string(c, escaped_, text_);
    escaped_ = !escaped_ && c == '\\';
}

bool CallObject::add_scalar(char c) {
    if (!is_of_scalar(c)) { return false; }
    if (at_call() && !in_scalar_) {
        const Key kind = kind_of(key_);
        if (kind == Key::kName || kind == Key::kWrapper || !begin_value(c)) { return false; }
        in_scalar_ = true;
    }
    text_ += c;
    just_open_ = false;
    return true;
}

CallObject::State CallObject::add(char c, const std::set<std::string> & names) {
    const auto state = [this](bool goes_on) {
        if (!goes_on) { return State::kNone; }
        return open_.empty() ? State::kWhole : State::kOpen;
    };
    if (in_string_) {
        if (c != '"' || escaped_) {
            add_in_string(c);
            return State::kOpen;
        }
        text_ += c;
        return state(end_string(names));
    }
    if (tool_marks::is_blank(c)) {
        if (in_scalar_) { end_value(); }
        text_ += c;
        return State::kOpen;
    }
    switch (c) {
        case '{':
        case '[':
            return state(open(c));
        case '}':
        case ']':
            return state(close(c));
        case '"':
            if (at_call() && expects_ != Expects::kKey && !begin_value(c)) { return State::kNone; }
            in_string_ = true;
            just_open_ = false;
            string_at_ = text_.size();
            break;
        case ':':
            if (at_call() && expects_ != Expects::kColon) { return State::kNone; }
            if (at_call()) { expects_ = Expects::kValue; }
            break;
        case ',':
            if (in_scalar_) { end_value(); }
            if (at_call() && expects_ != Expects::kNext) { return State::kNone; }
            if (at_call()) { expects_ = Expects::kKey; }
            break;
        default:
            return state(add_scalar(c));
    }
    text_ += c;
    return State::kOpen;
}

std::optional<TaggedCall> CallObject::read(bool may_be_bare) const {
    if (!has_name_ || !(has_arguments_ || may_be_bare)) { return std::nullopt; }
    if (!json_problem(text_ + std::string(open_.size(), '}')).empty()) { return std::nullopt; }
    const std::string_view written = trim(std::string_view(text_).substr(arguments_at_, arguments_end_ - arguments_at_));
    if (written.empty() || written == "null") { return TaggedCall{name_, "{}"}; }
    Json arguments = parsed(written);
    std::string as_text(written);
    if (arguments.is_string()) {
        as_text = trim(arguments.get<std::string>());
        if (as_text.empty()) { as_text = "{}"; }
        arguments = parsed(as_text);
    }
    if (!arguments.is_object() || is_schema(arguments)) { return std::nullopt; }
    return TaggedCall{name_, as_text};
}

}  // namespace pith
