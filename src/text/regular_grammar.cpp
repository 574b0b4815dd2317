// regular_grammar.cpp - a rule for each state of an automaton that is come to from several places or has several ways on.
// Stage: text.
#include "text/regular_grammar.h"

#include <array>
#include <cstdio>

namespace pith {
namespace {

struct Piece {
    std::string text;
    bool is_literal = false;
};

bool is_plain(char32_t c) {
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == ' ' || c == '_' || c == ':' ||
           c == '.' || c == '/' || c == ',';
}

std::string character(char32_t c) {
    if (is_plain(c)) { return {static_cast<char>(c)}; }
    std::array<char, 12> out{};
    std::snprintf(out.data(), out.size(),
                  c < 0x100     ? "\\x%02X"
                  : c < 0x10000 ? "\\u%04X"
                                : "\\U%08X",
                  static_cast<unsigned>(c));
    return out.data();
}

// What stands between brackets.
std::string class_of(const Characters & set) {
    std::string out;
    for (size_t i = 0; i < set.size(); i += 2) {
        out += character(set[i]);
        if (set[i + 1] > set[i]) { out += (set[i + 1] > set[i] + 1 ? "-" : "") + character(set[i + 1]); }
    }
    return out;
}

bool has(const Characters & set, char32_t c) {
    for (size_t i = 0; i < set.size(); i += 2) {
        if (c >= set[i] && c <= set[i + 1]) { return true; }
    }
    return false;
}

Characters without(const Characters & set, const Characters & these) {
    Characters out;
    for (size_t i = 0; i < set.size(); i += 2) {
        char32_t begin = set[i];
        for (size_t k = 0; k < these.size(); k += 2) {
            if (these[k + 1] < begin || these[k] > set[i + 1]) { continue; }
            if (these[k] > begin) { out.insert(out.end(), {begin, these[k] - 1}); }
            begin = these[k + 1] + 1;
        }
        if (begin <= set[i + 1]) { out.insert(out.end(), {begin, set[i + 1]}); }
    }
    return out;
}

Piece raw(const Characters & set) {
    if (set.size() == 2 && set[0] == set[1]) { return {"\"" + character(set[0]) + "\"", true}; }
    return {"[" + class_of(set) + "]", false};
}

Piece in_json_string(const Characters & set) {
    static constexpr std::array<std::pair<char32_t, const char *>, 7> kEscapes = {
        {{'"', "\\x22"}, {'\\', "\\\\"}, {'\b', "b"}, {'\f', "f"}, {'\n', "n"}, {'\r', "r"}, {'\t', "t"}}};
    static const Characters kNotRaw = {0, 0x1F, '"', '"', '\\', '\\', 0x7F, 0x7F};
    std::string escapes;
    int n_escapes = 0;
    for (const auto & [c, written] : kEscapes) {
        if (!has(set, c)) { continue; }
        escapes += written;
        ++n_escapes;
    }
    const Characters plain = without(set, kNotRaw);
    if (n_escapes == 0) { return raw(plain); }
    if (plain.empty() && n_escapes == 1) { return {R"("\\)" + escapes + "\"", true}; }
    const std::string escaped = R"("\\" [)" + escapes + "]";
    return {plain.empty() ? escaped : "(" + raw(plain).text + " | " + escaped + ")", false};
}

class AutomatonWriter {
public:
    AutomatonWriter(const TextAutomaton & automaton, bool in_json, GrammarRules & rules)
        : states_(automaton.states), in_json_(in_json), rules_(rules), names_(states_.size()), n_before_(states_.size()) {
        for (const auto & state : states_) {
            for (const auto & edge : state.edges) { ++n_before_[edge.to]; }
        }
    }

    std::string write() {
        if (is_end(0)) { return "\"\""; }
        const std::string first = name_of(0);
        for (size_t i = 0; i < open_.size(); ++i) { rules_.define(names_[open_[i]], body_of(open_[i])); }
        return first;
    }

private:
    bool is_end(uint32_t state) const { return states_[state].may_end && states_[state].edges.empty(); }

    std::string name_of(uint32_t state) {
        if (names_[state].empty()) {
            names_[state] = rules_.new_name();
            open_.push_back(state);
        }
        return names_[state];
    }

    std::string body_of(uint32_t state) {
        std::string out;
        for (const auto & edge : states_[state].edges) { out += (out.empty() ? "" : " | ") + way(edge); }
        if (states_[state].may_end) { out += " | \"\""; }
        return out;
    }

    // An edge, and what follows it without a choice.
    std::string way(const TextAutomaton::Edge & first) {
        std::string out;
        bool ends_in_literal = false;
        const TextAutomaton::Edge * edge = &first;
        while (true) {
            const Piece piece = in_json_ ? in_json_string(edge->on) : raw(edge->on);
            if (ends_in_literal && piece.is_literal) {
                out.pop_back();
                out += piece.text.substr(1);
            } else {
                out += (out.empty() ? "" : " ") + piece.text;
            }
            ends_in_literal = piece.is_literal;
            const auto & to = states_[edge->to];
            if (is_end(edge->to)) { return out; }
            if (to.may_end || to.edges.size() != 1 || n_before_[edge->to] != 1 || edge->to == 0) {
                return out + " " + name_of(edge->to);
            }
            edge = &to.edges[0];
        }
    }

    const std::vector<TextAutomaton::State> & states_;
    bool in_json_;
    GrammarRules & rules_;
    std::vector<std::string> names_;
    std::vector<int> n_before_;
    std::vector<uint32_t> open_;  // states that have a name
};

}  // namespace

std::string GrammarRules::text() const {
    std::string out;
    for (const auto & [name, body] : rules_) { out += name + " ::= " + body + "\n"; }
    return out;
}

std::string expression_of(const TextAutomaton & automaton, bool in_json, GrammarRules & rules) {
    return AutomatonWriter(automaton, in_json, rules).write();
}

Characters writable_in_json() {
    return {'\b', '\n', '\f', '\r', ' ', '~', 0x80, 0x10FFFF};
}

}  // namespace pith
