// grammar_choice.cpp - rules of two grammars under names of their own. Stage: text.
#include "text/grammar_choice.h"

#include <algorithm>
#include <cctype>

namespace pith {
namespace {

bool begins_name(char c) {
    return std::isalpha(static_cast<unsigned char>(c)) != 0;
}

bool goes_on_in_name(char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-';
}

// Behind a literal, a class or a token's name that begins at `at`.
size_t behind_quoted(std::string_view text, size_t at) {
    const char end = text[at] == '[' ? ']' : text[at] == '<' ? '>' : '"';
    for (++at; at < text.size() && text[at] != end; ++at) {
        if (text[at] == '\\') { ++at; }
    }
    return at < text.size() ? at + 1 : text.size();
}

// Every rule's name behind `prefix`; what stands in quotation marks, classes and comments is left as it is.
std::string renamed(std::string_view text, std::string_view prefix) {
    std::string out;
    for (size_t at = 0; at < text.size();) {
        const char c = text[at];
        size_t end = at + 1;
        if (c == '"' || c == '[' || c == '<') {
            end = behind_quoted(text, at);
        } else if (c == '#') {
            end = std::min(text.find('\n', at), text.size());
        } else if (begins_name(c)) {
            while (end < text.size() && goes_on_in_name(text[end])) { ++end; }
            out += prefix;
        }
        out += text.substr(at, end - at);
        at = end;
    }
    if (!out.ends_with('\n')) { out += '\n'; }
    return out;
}

}  // namespace

std::string grammar_of_either(std::string_view one, std::string_view other) {
    return "root ::= a-root | b-root\n" + renamed(one, "a-") + renamed(other, "b-");
}

std::string grammar_behind(std::string_view begin, std::string_view rules, std::string_view grammar) {
    return "root ::= " + std::string(begin) + " a-root\n" + std::string(rules) + renamed(grammar, "a-");
}

}  // namespace pith
