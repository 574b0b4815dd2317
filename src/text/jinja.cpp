// jinja.cpp - the only file that sees minja. Stage: text.
#include "text/jinja.h"

#ifdef PITH_HAS_MINJA

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <ctime>
#include <memory>
#include <minja/minja.hpp>
#include <mutex>
#include <new>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "core/json_syntax.h"
#include "text/contained_work.h"
#include "text/utf8.h"

namespace pith {
namespace {

using Json = nlohmann::ordered_json;
using minja::ArgumentsValue;
using minja::Context;
using minja::Value;
using ContextPointer = std::shared_ptr<Context>;

constexpr uint64_t kMostNumbers = 1'000'000;  // of a range
constexpr size_t kMostReason = 300;           // bytes of a message
constexpr char kRendered = 't';
constexpr char kRefused = 'r';

// raise_exception()'s words. minja makes a std::runtime_error of whatever is thrown, so they are kept aside.
struct Refusal {
    bool refused = false;
    std::string words;
};

std::string first_line(std::string text) {
    text.resize(std::min(text.size(), text.find('\n')));  // the rest is one line of a Status
    while (!text.empty() && (text.back() == ':' || text.back() == ' ')) { text.pop_back(); }
    if (text.size() > kMostReason) { text = text.substr(0, whole_characters(text, kMostReason)) + "…"; }
    return text;
}

std::string today(const std::string & format) {
    const std::time_t now = std::time(nullptr);
    std::tm parts{};
    localtime_r(&now, &parts);
    std::string text(format.size() * 16 + 256, '\0');
    text.resize(std::strftime(text.data(), text.size(), format.c_str(), &parts));
    return text;
}

Value range_of(const ContextPointer &, ArgumentsValue & args) {
    if (args.args.empty() || args.args.size() > 3 || !args.kwargs.empty()) {
        throw std::runtime_error("range() takes one to three numbers");
    }
    const auto number = [&args](size_t i) { return args.args[i].get<int64_t>(); };
    const bool from_zero = args.args.size() == 1;
    const int64_t begin = from_zero ? 0 : number(0);
    const int64_t end = number(from_zero ? 0 : 1);
    const int64_t step = args.args.size() == 3 ? number(2) : 1;
    if (step == 0) { throw std::runtime_error("range() with a step of 0"); }
    const auto distance = [](int64_t low, int64_t high) {
        return low < high ? static_cast<uint64_t>(high) - static_cast<uint64_t>(low) : 0;
    };
    const uint64_t way = step > 0 ? distance(begin, end) : distance(end, begin);
    const uint64_t stride = step > 0 ? static_cast<uint64_t>(step) : 0 - static_cast<uint64_t>(step);
    const uint64_t n = way / stride + (way % stride == 0 ? 0 : 1);
    if (n > kMostNumbers) { throw std::runtime_error("range() has more than a million numbers"); }  // before any is made
    Value numbers = Value::array();
    for (uint64_t i = 0; i < n; ++i) {
        numbers.push_back(Value(static_cast<int64_t>(static_cast<uint64_t>(begin) + i * static_cast<uint64_t>(step))));
    }
    return numbers;
}

// tojson as in Hugging Face's: keys stay in their order, "/" and letters beyond ASCII as they are.
Value to_json(const ContextPointer &, ArgumentsValue & args) {
    if (args.args.empty()) { throw std::runtime_error("tojson has nothing to write"); }
    Value indent = args.args.size() > 1 ? args.args[1] : args.get_named("indent");
    return Value(args.args[0].dump(indent.is_null() ? -1 : indent.get<int>(), /*to_json=*/true));
}

ContextPointer context_of(const Json & values, Refusal & refusal) {
    const ContextPointer context = Context::make(Value(values));
    context->set("raise_exception", Value::callable([&refusal](const ContextPointer &, ArgumentsValue & args) -> Value {
                     refusal.refused = true;
                     refusal.words = args.args.empty() ? "" : args.args[0].to_str();
                     throw std::runtime_error(refusal.words);
                 }));
    context->set("strftime_now", Value::callable([](const ContextPointer &, ArgumentsValue & args) {
                     return Value(today(args.args.empty() ? "" : args.args[0].get<std::string>()));
                 }));
    context->set("range", Value::callable(range_of));
    context->set("tojson", Value::callable(to_json));
    if (!values.contains("date_string")) { context->set("date_string", Value(today("%d %b %Y"))); }
    return context;
}

bool is_word(char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

// Behind the quotation mark that ends the text which begins at `at`; at most the end.
size_t behind_quote(const std::string & source, size_t at) {
    const char quote = source[at];
    for (++at; at < source.size() && source[at] != quote; ++at) {
        if (source[at] == '\\') { ++at; }
    }
    return std::min(at + 1, source.size());
}

// Behind the bracket that closes the one at `at`; npos: none does.
size_t behind_brackets(const std::string & source, size_t at) {
    for (int depth = 0; at < source.size();) {
        const char c = source[at];
        if (c == '\'' || c == '"') {
            at = behind_quote(source, at);
            continue;
        }
        ++at;
        depth += c == '(' ? 1 : c == ')' ? -1 : 0;
        if (depth == 0) { return at; }
    }
    return std::string::npos;
}

// minja reads no member of what a function returns, name(…).member, but does of the same in brackets, (name(…)).member.
// inside: of {{ }} or {% %}, where alone it matters.
std::string with_calls_in_brackets(const std::string & source, bool inside = false) {
    std::string out;
    for (size_t at = 0; at < source.size();) {
        const std::string_view two = std::string_view(source).substr(at, 2);
        if (two == "{{" || two == "{%") { inside = true; }
        if (two == "}}" || two == "%}") { inside = false; }
        if (inside && (source[at] == '\'' || source[at] == '"')) {
            const size_t end = behind_quote(source, at);
            out += source.substr(at, end - at);
            at = end;
            continue;
        }
        const bool begins = inside && is_word(source[at]) && (at == 0 || (!is_word(source[at - 1]) && source[at - 1] != '.'));
        size_t bracket = at;
        while (begins && bracket < source.size() && is_word(source[bracket])) { ++bracket; }
        const bool is_call = begins && bracket < source.size() && source[bracket] == '(';
        const size_t end = is_call ? behind_brackets(source, bracket) : std::string::npos;
        const bool goes_on = end < source.size() && (source[end] == '.' || source[end] == '[');
        if (goes_on) {
            const std::string arguments = source.substr(bracket, end - bracket);
            out += "(" + source.substr(at, bracket - at) + with_calls_in_brackets(arguments, true) + ")";
            at = end;
        } else {
            out += source[at++];
        }
    }
    return out;
}

std::shared_ptr<minja::TemplateNode> parsed(const std::string & source) {
    const minja::Options options = {/*trim_blocks=*/true, /*lstrip_blocks=*/true, /*keep_trailing_newline=*/false};
    try {
        return minja::Parser::parse(source, options);
    } catch (const std::bad_alloc &) { throw; } catch (const std::exception &) {
        const std::string again = with_calls_in_brackets(source);
        if (again == source) { throw; }
        return minja::Parser::parse(again, options);
    }
}

class Template {
public:
    explicit Template(const std::string & source) : root_(parsed(source)) {}

    std::string render(const Json & values, Refusal & refusal) const { return root_->render(context_of(values, refusal)); }
    // Empty where it fails: to find out what it can do.
    std::string try_render(const Json & values) const {
        try {
            Refusal ignored;
            return render(values, ignored);
        } catch (const std::bad_alloc &) { throw; } catch (const std::exception &) {
            return {};
        }
    }

private:
    std::shared_ptr<minja::TemplateNode> root_;
};

bool holds(const std::string & text, const char * part) {
    return text.find(part) != std::string::npos;
}

bool is_system(const Json & message) {
    const std::string role = message.value("role", "");
    return role == "system" || role == "developer";
}

template <class Visit>
void for_each_call(Json & messages, const Visit & visit) {
    for (Json & message : messages) {
        if (!message.contains("tool_calls") || !message["tool_calls"].is_array()) { continue; }
        for (Json & call : message["tool_calls"]) {
            Json & function = call.contains("function") ? call["function"] : call;
            if (function.is_object() && function.contains("arguments")) { visit(function["arguments"]); }
        }
    }
}

// Objects, unless the template would write them as Python does instead of as JSON.
void fit_arguments(const Template & own, Json & values) {
    Json probe = values;
    size_t n_calls = 0;
    for_each_call(probe["messages"], [&n_calls](Json & arguments) {
        arguments = {{"pith_key", "pith_value"}};
        ++n_calls;
    });
    if (n_calls == 0) { return; }
    const bool as_text = holds(own.try_render(probe), "'pith_key'");
    for_each_call(values["messages"], [as_text](Json & arguments) {
        if (as_text && !arguments.is_string()) {
            arguments = Value(arguments).dump(-1, /*to_json=*/true);
        } else if (!as_text && arguments.is_string()) {
            const std::string said = arguments;
            Json read = json_problem(said).empty() ? Json::parse(said, nullptr, /*allow_exceptions=*/false) : Json();
            arguments =
                read.is_object() ? std::move(read) : Json{{"input", arguments}};  // what is no object is shown all the same
        }
    });
}

Json parts_of(const Json & content) {
    return content.is_string() ? Json::array({{{"type", "text"}, {"text", content}}}) : content;
}

void fit_contents(const Template & own, Json & values) {
    constexpr const char * kSaid = "pith_said";
    Json probe = values;
    probe.erase("tools");
    probe["messages"] = Json::array({{{"role", "user"}, {"content", kSaid}}});
    if (holds(own.try_render(probe), kSaid)) { return; }
    probe["messages"][0]["content"] = parts_of(kSaid);
    if (!holds(own.try_render(probe), kSaid)) { return; }
    for (Json & message : values["messages"]) {
        if (message.contains("content")) { message["content"] = parts_of(message["content"]); }
    }
}

void fit_system(const Template & own, Json & values) {
    Json & messages = values["messages"];
    if (messages.empty() || !is_system(messages[0])) { return; }
    constexpr const char * kSystem = "pith_system";
    const bool in_parts = messages[0].contains("content") && messages[0]["content"].is_array();
    const auto content = [in_parts](const Json & text) { return in_parts ? parts_of(text) : text; };
    Json probe = values;
    probe.erase("tools");
    probe["messages"] = Json::array({{{"role", "user"}, {"content", content("pith_said")}}});
    if (own.try_render(probe).empty()) { return; }  // what it refuses is not the system prompt
    const Json prompt = {{"role", messages[0]["role"]}, {"content", content(kSystem)}};
    probe["messages"].insert(probe["messages"].begin(), prompt);
    if (holds(own.try_render(probe), kSystem)) { return; }
    const Json system = messages[0]["content"];
    if (messages.size() < 2 || messages[1].value("role", "") != "user") {
        messages[0]["role"] = "user";
        return;
    }
    Json & user = messages[1]["content"];
    if (in_parts) {
        for (size_t i = system.size(); i > 0; --i) { user.insert(user.begin(), system[i - 1]); }
    } else {
        user = system.get<std::string>() + "\n" + user.get<std::string>();
    }
    messages.erase(messages.begin());
}

// minja's whole numbers have a sign and 63 bits. Larger ones are given as texts between two noncharacters (U+FFFE), which are
// taken out again, with the quotation marks that tojson puts around a text.
constexpr std::string_view kLarge = "\xEF\xBF\xBE";

bool mark_large_numbers(Json & value) {
    bool any = false;
    if (value.is_structured()) {
        for (Json & one : value) { any = mark_large_numbers(one) || any; }
    } else if (value.is_number_unsigned() && value.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX)) {
        value = std::string(kLarge) + value.dump() + std::string(kLarge);
        any = true;
    }
    return any;
}

std::string without_marks_of_large_numbers(const std::string & text) {
    std::string out;
    size_t at = 0;
    for (size_t mark = text.find(kLarge); mark != std::string::npos; mark = text.find(kLarge, at)) {
        const size_t digits = mark + kLarge.size();
        const size_t behind = text.find_first_not_of("0123456789", digits);
        if (behind == digits || behind == std::string::npos || text.compare(behind, kLarge.size(), kLarge) != 0) {
            out.append(text, at, digits - at);  // somebody else's
            at = digits;
            continue;
        }
        const size_t end = behind + kLarge.size();
        const bool in_quotes =
            mark > at && end < text.size() && text[mark - 1] == text[end] && (text[end] == '"' || text[end] == '\'');
        out.append(text, at, mark - at - (in_quotes ? 1 : 0));
        out.append(text, digits, behind - digits);
        at = end + (in_quotes ? 1 : 0);
    }
    return out.append(text, at);
}

// In the process of its own.
std::string rendered(const std::string & source, const Json & given) {
    Refusal refusal;
    try {
        const Template own(source);
        Json values = given;
        if (values.contains("messages") && values["messages"].is_array()) {
            fit_contents(own, values);
            fit_system(own, values);
            fit_arguments(own, values);
        }
        const bool any_large = mark_large_numbers(values);
        const std::string text = own.render(values, refusal);
        return kRendered + (any_large ? without_marks_of_large_numbers(text) : text);
    } catch (const std::bad_alloc &) { throw; } catch (const std::length_error &) {
        throw;
    } catch (const std::exception & error) {
        if (refusal.refused) { return kRefused + refusal.words; }
        if (std::string_view(error.what()).starts_with("std::bad_alloc")) { throw std::bad_alloc(); }  // minja rewrote it
        throw std::runtime_error("cannot be read: " + first_line(error.what()));
    }
}

}  // namespace

bool has_jinja() {
    return true;
}

Result<std::string> render_jinja(const std::string & source, const nlohmann::ordered_json & values) {
    // What minja makes once it makes here: every new process has it then, and none waits for a lock that a thread held.
    static std::once_flag once;
    std::call_once(once, [] { Template("{%- if a -%} {{ b | trim }} {% endif %}{# #}").try_render(Json::object()); });
    auto text = run_contained([&] { return rendered(source, values); }, {});
    if (!text.ok()) { return {text.status().code(), first_line(text.status().message())}; }
    const char kind = text->empty() ? '\0' : text->front();
    text->erase(0, 1);
    if (kind == kRefused) { return {ErrorCode::kInvalidArgument, "refuses these messages: " + first_line(*text)}; }
    return text;
}

}  // namespace pith

#else

namespace pith {

bool has_jinja() {
    return false;
}

Result<std::string> render_jinja(const std::string &, const nlohmann::ordered_json &) {
    return {ErrorCode::kUnsupported, "cannot be read: this build is without minja"};
}

}  // namespace pith

#endif
