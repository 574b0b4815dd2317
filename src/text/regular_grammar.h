// regular_grammar.h - the rules of a grammar while it is made, and sets of texts as such rules. Stage: text.
// Pure C++. Threads: one at a time.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "text/regular_texts.h"

namespace pith {

class GrammarRules {
public:
    // prefix: of all names.
    explicit GrammarRules(std::string prefix) : prefix_(std::move(prefix)) {}

    std::string new_name() { return prefix_ + 'r' + std::to_string(n_names_++); }
    void define(const std::string & name, std::string body) { rules_.emplace_back(name, std::move(body)); }
    std::string add(std::string body) {
        std::string name = new_name();
        define(name, std::move(body));
        return name;
    }
    std::string text() const;

private:
    std::string prefix_;
    int n_names_ = 0;
    std::vector<std::pair<std::string, std::string>> rules_;
};

// As an expression.   in_json: as a JSON string between its quotation marks has it, with \", \\, \b, \f, \n, \r and \t; the
// texts have no other control characters then (writable_in_json()).   REQUIRES: it has a state.
std::string expression_of(const TextAutomaton & automaton, bool in_json, GrammarRules & rules);

// All but control characters that JSON strings write as numbers.
Characters writable_in_json();

}  // namespace pith
