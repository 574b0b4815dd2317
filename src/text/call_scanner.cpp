// call_scanner.cpp - character by character. Stage: text.
#include "text/call_scanner.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "core/text.h"
#include "text/call_object.h"
#include "text/tool_marks.h"

namespace pith {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kKeys[] = {"name", "function", "arguments", "parameters", "type", "id"};

}  // namespace

void CallScanner::end_string() {
    if (!in_value_) {
        key_ = string_;
        foreign_ = foreign_ || std::ranges::find(kKeys, std::string_view(key_)) == std::end(kKeys);
    } else if (name_.empty() && (key_ == "name" || key_ == "function")) {
        const Json text = Json::parse('"' + string_ + '"', nullptr, /*allow_exceptions=*/false);
        if (text.is_string()) { name_ = text.get<std::string>(); }
    }
}

bool CallScanner::add(char c) {
    if (done_ || (depth_ == 0 && c != '{')) { return false; }
    if (in_arguments_ && !(depth_ == 1 && !in_string_ && (c == ',' || c == '}'))) {
        if (depth_ == 1 && !in_string_) {
            if (tool_marks::is_blank(c)) { return true; }
            as_text_ = as_text_ || (!begun_ && c == '"');
            foreign_ = foreign_ || (!begun_ && c != '{');
            begun_ = true;
        }
        if (in_string_) {
            add_in_json_string(c, escaped_, arguments_);
        } else {
            arguments_ += c;
        }
    }
    if (in_string_) {
        if (escaped_) {
            escaped_ = false;
        } else if (c == '\\') {
            escaped_ = true;
        } else if (c == '"') {
            in_string_ = false;
            if (depth_ == 1) { end_string(); }
            return true;
        }
        if (depth_ == 1 && !in_arguments_) { string_ += c; }
        return true;
    }
    switch (c) {
        case '"':
            in_string_ = true;
            string_.clear();
            break;
        case '{':
        case '[':
            // A brace where a key belongs, or a value that is no name.
            foreign_ = foreign_ || (depth_ == 1 && !in_arguments_);
            ++depth_;
            break;
        case '}':
        case ']':
            --depth_;
            done_ = depth_ == 0;
            in_arguments_ = in_arguments_ && depth_ > 1;
            break;
        case ':':
            if (depth_ == 1) {
                in_value_ = true;
                in_arguments_ = is_arguments() && !begun_;
            }
            break;
        case ',':
            if (depth_ == 1) { in_value_ = in_arguments_ = false; }
            break;
        default:
            break;
    }
    return true;
}

std::string CallScanner::take_arguments() {
    constexpr std::string_view kNone = "null";  // no arguments, which are an object
    if (!as_text_) {
        const bool may_be_none = !taken_ && kNone.starts_with(arguments_);
        if (may_be_none && in_arguments_) { return {}; }
        if (may_be_none && arguments_ == kNone) { arguments_ = "{}"; }
        taken_ = taken_ || !arguments_.empty();
        return std::exchange(arguments_, {});
    }
    if (in_arguments_) { return {}; }  // known when it is whole
    as_text_ = false;
    const std::string written = std::exchange(arguments_, {});
    const Json text = Json::parse(written, nullptr, /*allow_exceptions=*/false);
    if (!text.is_string()) { return written; }
    const auto & said = text.get_ref<const std::string &>();
    return trim(said).empty() || trim(said) == kNone ? "{}" : said;
}

}  // namespace pith
