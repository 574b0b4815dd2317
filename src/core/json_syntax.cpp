// json_syntax.cpp - reads JSON value by value, with a stack of its own.
#include "core/json_syntax.h"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace pith {
namespace {

constexpr std::string_view kBlanks = " \t\r\n";
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

bool is_hex(char c) {
    return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

enum class Next { kValue, kFirstItem, kFirstName, kName, kColon, kMore, kNothing };

class Reader {
public:
    Reader(std::string_view text, const JsonLimits & limits) : text_(text), limits_(limits) {
        if (text_.starts_with(kByteOrderMark)) { at_ = kByteOrderMark.size(); }
    }

    // What belongs at at_; empty: all is well.
    std::string read() {
        for (;;) {
            at_ = std::min(text_.find_first_not_of(kBlanks, at_), text_.size());
            if (at_ == text_.size()) { return next_ == Next::kNothing ? "" : wanted(); }
            if (!step(text_[at_])) { return problem_.empty() ? wanted() : problem_; }
        }
    }
    const std::string & beyond() const { return beyond_; }  // which limit the text is beyond
    size_t at() const { return at_; }

private:
    std::string wanted() const {
        switch (next_) {
            case Next::kValue:
                return "a value";
            case Next::kFirstItem:
                return "a value or ']'";
            case Next::kFirstName:
                return "a name in quotation marks or '}'";
            case Next::kName:
                return "a name in quotation marks";
            case Next::kColon:
                return "':'";
            case Next::kMore:
                return open_.back() == '{' ? "',' or '}'" : "',' or ']'";
            case Next::kNothing:
                break;
        }
        return "nothing more";
    }

    bool step(char c) {
        switch (next_) {
            case Next::kFirstItem:
                return c == ']' ? close() : value(c);
            case Next::kValue:
                return value(c);
            case Next::kFirstName:
                return c == '}' ? close() : name(c);
            case Next::kName:
                return name(c);
            case Next::kColon:
                return c == ':' && go_on(Next::kValue);
            case Next::kMore:
                if (c == ',') { return go_on(open_.back() == '{' ? Next::kName : Next::kValue); }
                return c == (open_.back() == '{' ? '}' : ']') && close();
            case Next::kNothing:
                break;
        }
        return false;
    }

    bool go_on(Next next) {
        ++at_;
        next_ = next;
        return true;
    }
    bool open(char c) {
        if (open_.size() == static_cast<size_t>(kMostJsonDepth)) {
            beyond_ = "nested deeper than " + std::to_string(kMostJsonDepth);
            return false;
        }
        open_.push_back(c);
        n_names_.push_back(0);
        return go_on(c == '{' ? Next::kFirstName : Next::kFirstItem);
    }
    bool close() {
        ++at_;
        open_.pop_back();
        n_names_.pop_back();
        return end_value();
    }
    bool end_value() {
        next_ = open_.empty() ? Next::kNothing : Next::kMore;
        return true;
    }

    bool count(int64_t & n, int64_t most, std::string_view what) {
        if (++n <= most) { return true; }
        beyond_ = "more than " + std::to_string(most) + " " + std::string(what);
        return false;
    }

    bool value(char c) {
        const bool is_number = c == '-' || is_digit(c);
        if (is_number ? !count(n_numbers_, limits_.most_numbers, "numbers")
                      : !count(n_values_, limits_.most_values, "values")) {
            return false;
        }
        if (c == '{' || c == '[') { return open(c); }
        if (c == '"') { return string() && end_value(); }
        if (is_number) { return number() && end_value(); }
        for (const std::string_view word : {"true", "false", "null"}) {
            if (!text_.substr(at_).starts_with(word)) { continue; }
            at_ += word.size();
            return end_value();
        }
        return false;
    }

    bool name(char c) {
        if (c != '"') { return false; }
        if (n_names_.back()++ == kMostJsonNames) {
            beyond_ = "an object of more than " + std::to_string(kMostJsonNames) + " names";
            return false;
        }
        if (!count(n_values_, limits_.most_values, "values") || !string()) { return false; }
        next_ = Next::kColon;
        return true;
    }

    bool expect(bool met, std::string_view what) {
        if (!met) { problem_ = what; }
        return met;
    }
    char here() const { return at_ < text_.size() ? text_[at_] : '\0'; }

    bool string() {
        for (++at_; here() != '"'; ++at_) {
            if (!expect(at_ < text_.size(), "'\"', the end of a text,")) { return false; }
            if (!expect(static_cast<unsigned char>(here()) >= 0x20, "'\"', or \\n for a line break,")) { return false; }
            if (here() == '\\' && !escape()) { return false; }
        }
        ++at_;
        return true;
    }
    bool escape() {
        ++at_;
        if (here() != 'u') {
            const bool known = here() != '\0' && std::string_view("\"\\/bfnrt").find(here()) != std::string_view::npos;
            return expect(known, "one of \" \\ / b f n r t u behind the \\");
        }
        for (int i = 0; i < 4; ++i) {
            ++at_;
            if (!expect(is_hex(here()), "one of four hexadecimal digits")) { return false; }
        }
        return true;
    }

    bool digits() {
        if (!expect(is_digit(here()), "a digit")) { return false; }
        while (is_digit(here())) { ++at_; }
        return true;
    }
    bool number() {
        at_ += here() == '-' ? 1 : 0;
        if (here() == '0') {
            ++at_;
        } else if (!digits()) {
            return false;
        }
        if (here() == '.') {
            ++at_;
            if (!digits()) { return false; }
        }
        if (here() == 'e' || here() == 'E') {
            ++at_;
            at_ += here() == '-' || here() == '+' ? 1 : 0;
            return digits();
        }
        return true;
    }

    std::string_view text_;
    JsonLimits limits_;
    size_t at_ = 0;
    Next next_ = Next::kValue;
    std::vector<char> open_;
    std::vector<int> n_names_;  // of each that is open
    std::string problem_;       // inside of a text or a number
    std::string beyond_;
    int64_t n_values_ = 0;
    int64_t n_numbers_ = 0;
};

}  // namespace

std::string json_problem(std::string_view text, const JsonLimits & limits) {
    Reader reader(text, limits);
    const std::string wanted = reader.read();
    if (wanted.empty()) { return {}; }
    const std::string_view before = text.substr(0, reader.at());
    const auto line = 1 + std::count(before.begin(), before.end(), '\n');
    const size_t line_begin = before.rfind('\n') + 1;  // 0 where there is none
    const std::string place =
        "line " + std::to_string(line) + ", byte " + std::to_string(before.size() - line_begin + 1) + ": ";
    if (!reader.beyond().empty()) { return place + reader.beyond(); }
    if (reader.at() == text.size()) { return place + wanted + " belongs here, where the text ends"; }
    const char found = text[reader.at()];
    const bool printable = found > ' ' && found <= '~';
    return place + wanted + " belongs here" + (printable ? std::string(", not '") + found + "'" : "");
}

}  // namespace pith
