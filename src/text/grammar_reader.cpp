// grammar_reader.cpp - GBNF, symbol by symbol. Stage: text.
#include <algorithm>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/text.h"
#include "text/grammar.h"
#include "text/grammar_text.h"
#include "text/utf8.h"

namespace pith {
namespace {

constexpr size_t kMostTokenBytes = 256;  // <name>
constexpr size_t kMostShown = 40;        // bytes of a name in a message

using Symbols = std::vector<GrammarSymbol>;

class GrammarReader : private GrammarText {
public:
    GrammarReader(std::string_view text, const TokenOfText & token_of_text)
        : GrammarText(text), token_of_text_(token_of_text) {}

    Result<Grammar> read() {
        grammar_.symbols.push_back({GrammarKind::kEnd, 0});
        skip_blanks(true);
        while (!at_end()) { PITH_RETURN_IF_ERROR(read_rule()); }
        PITH_RETURN_IF_ERROR(check_rules());
        put_rules_together();
        if (!keep_what_ends(grammar_)) {
            return {ErrorCode::kInvalidArgument, "the grammar cannot be followed: no text of the rule " +
                                                     name_of(grammar_.root) +
                                                     " ends, as where what must be there must have itself within it"};
        }
        if (const auto rule = rule_that_begins_with_itself(grammar_)) {
            return {ErrorCode::kInvalidArgument, "the grammar cannot be followed: the rule " + name_of(*rule) +
                                                     " begins with itself (left recursion): say what repeats with * or +"};
        }
        return std::move(grammar_);
    }

private:
    struct Rule {
        std::vector<uint32_t> begins;  // of its alternatives
        uint32_t name = 0;             // whose text it came from
        bool is_known = false;         // not only mentioned
    };

    std::string name_of(uint32_t rule) const {
        std::string_view name = names_[rules_[rule].name];
        return pith::quoted(name.substr(0, kMostShown)) + (name.size() > kMostShown ? "…" : "");
    }

    // ---- rules ------------------------------------------------------------------------------------------------------

    uint32_t rule_called(std::string_view name) {
        const auto [found, is_new] = numbers_.try_emplace(name, static_cast<uint32_t>(rules_.size()));
        if (is_new) {
            rules_.push_back({{}, static_cast<uint32_t>(names_.size()), false});
            names_.push_back(name);
        }
        return found->second;
    }
    uint32_t make_rule() {
        rules_.push_back({{}, name_, true});
        return static_cast<uint32_t>(rules_.size() - 1);
    }
    void add_alternative(uint32_t rule, const Symbols & symbols) {
        rules_[rule].begins.push_back(static_cast<uint32_t>(grammar_.symbols.size()));
        grammar_.symbols.insert(grammar_.symbols.end(), symbols.begin(), symbols.end());
        grammar_.symbols.push_back({GrammarKind::kEnd, 0});
    }
    Status count(size_t n) {
        n_symbols_ += n;
        if (n_symbols_ <= kMostGrammarSymbols) { return {}; }
        return wrong("there are more than " + std::to_string(kMostGrammarSymbols) +
                     " symbols once repetitions are written out: repeat less");
    }

    Status read_rule() {
        const std::string_view name = read_name();
        if (name.empty()) { return wrong("a rule's name belongs here (letters, digits and -), then ::="); }
        skip_blanks(false);
        if (!rest().starts_with("::=")) { return wrong("::= belongs behind a rule's name"); }
        skip(3);
        const uint32_t rule = rule_called(name);
        name_ = rules_[rule].name;
        rules_[rule].begins.clear();  // the last of several counts
        rules_[rule].is_known = true;
        PITH_RETURN_IF_ERROR(read_alternatives(rule, 0));
        if (!at_end() && here() != '\n' && here() != '\r') {
            return wrong("a line break or the end belongs behind a rule" +
                         (here() > ' ' && here() <= '~' ? std::string(", not '") + here() + "'" : ""));
        }
        skip_blanks(true);
        return {};
    }

    // depth: of brackets around.
    Status read_alternatives(uint32_t rule, int depth) {
        do {
            skip_blanks(/*lines_too=*/true);
            Symbols symbols;
            PITH_RETURN_IF_ERROR(read_sequence(symbols, depth));
            PITH_RETURN_IF_ERROR(count(1));
            add_alternative(rule, symbols);
        } while (take('|'));
        return {};
    }

    Status read_sequence(Symbols & symbols, int depth) {
        size_t last = 0;  // where the last thing begins, which a repetition is of
        for (; !at_end(); skip_blanks(depth > 0)) {
            const char c = here();
            if (c == '*' || c == '+' || c == '?' || c == '{') {
                if (last == symbols.size()) { return wrong(std::string("nothing stands before '") + c + "'"); }
                PITH_RETURN_IF_ERROR(read_repetition(symbols, last, depth));
                continue;
            }
            const size_t begin = symbols.size();
            if (c == '"') {
                PITH_RETURN_IF_ERROR(read_literal(symbols));
            } else if (c == '[') {
                PITH_RETURN_IF_ERROR(read_class(symbols));
            } else if (c == '.') {
                skip(1);
                PITH_RETURN_IF_ERROR(count(1));
                symbols.push_back({GrammarKind::kCharacters, any_character()});
            } else if (c == '<' || c == '!') {
                PITH_RETURN_IF_ERROR(read_token(symbols));
            } else if (c == '(') {
                PITH_RETURN_IF_ERROR(read_brackets(symbols, depth + 1));
            } else if (is_of_name(c)) {
                PITH_RETURN_IF_ERROR(count(1));
                symbols.push_back({GrammarKind::kRule, rule_called(read_name())});
            } else {
                return {};
            }
            last = begin;
        }
        return {};
    }

    Status read_brackets(Symbols & symbols, int depth) {
        if (depth > kMostGrammarDepth) {
            return wrong("brackets are nested deeper than " + std::to_string(kMostGrammarDepth) + ": give a part a name");
        }
        skip(1);
        const uint32_t rule = make_rule();
        PITH_RETURN_IF_ERROR(read_alternatives(rule, depth));
        if (!take(')')) { return wrong("')' is missing"); }
        PITH_RETURN_IF_ERROR(count(1));
        symbols.push_back({GrammarKind::kRule, rule});
        return {};
    }

    // ---- what is said -----------------------------------------------------------------------------------------------

    uint32_t add_set(const std::vector<char32_t> & bounds, bool all_others) {
        const auto begin = static_cast<uint32_t>(grammar_.bounds.size());
        grammar_.bounds.insert(grammar_.bounds.end(), bounds.begin(), bounds.end());
        grammar_.sets.push_back({begin, static_cast<uint32_t>(grammar_.bounds.size()), all_others});
        return static_cast<uint32_t>(grammar_.sets.size() - 1);
    }
    uint32_t one_character(char32_t character) {
        const auto [found, is_new] = alone_.try_emplace(character, 0);
        if (is_new) { found->second = add_set({character, character}, false); }
        return found->second;
    }
    uint32_t any_character() {
        if (!any_) { any_ = add_set({}, true); }
        return *any_;
    }

    Status read_literal(Symbols & symbols) {
        skip(1);
        while (!take('"')) {
            char32_t character = 0;
            PITH_RETURN_IF_ERROR(read_character(character));
            PITH_RETURN_IF_ERROR(count(1));
            symbols.push_back({GrammarKind::kCharacters, one_character(character)});
        }
        return {};
    }
    Status read_class(Symbols & symbols) {
        skip(1);
        const bool all_others = take('^');
        std::vector<std::pair<char32_t, char32_t>> spans;
        while (!take(']')) {
            char32_t low = 0;
            PITH_RETURN_IF_ERROR(read_character(low));
            char32_t high = low;
            if (here() == '-' && !rest().starts_with("-]")) {
                skip(1);
                PITH_RETURN_IF_ERROR(read_character(high));
            }
            spans.emplace_back(low, high);
        }
        if (spans.empty()) { return wrong("no character stands between [ and ]"); }
        PITH_RETURN_IF_ERROR(count(1));
        symbols.push_back({GrammarKind::kCharacters, add_set(merged_spans(std::move(spans)), all_others)});
        return {};
    }
    Status read_token(Symbols & symbols) {
        const bool other = take('!');
        const size_t end = rest().find('>');
        if (here() != '<' || end == std::string_view::npos || end > kMostTokenBytes) {
            return wrong("a token is <name> or <[number]>, of " + std::to_string(kMostTokenBytes) + " bytes at most");
        }
        const std::string_view name = rest().substr(0, end + 1);
        skip(name.size());
        std::optional<int32_t> token;
        if (name.starts_with("<[") && name.ends_with("]>")) {
            const std::string_view digits = name.substr(2, name.size() - 4);
            const bool is_number = !digits.empty() && digits.size() < 10 && std::ranges::all_of(digits, is_digit);
            if (is_number) { token = std::stoi(std::string(digits)); }
        } else {
            token = token_of_text_(name);
        }
        if (!token || *token < 0 || static_cast<uint32_t>(*token) > GrammarSymbol::kMostValue) {
            return wrong(pith::quoted(name.substr(0, kMostShown)) + " is no token of the vocabulary");
        }
        PITH_RETURN_IF_ERROR(count(1));
        symbols.push_back({other ? GrammarKind::kOtherToken : GrammarKind::kToken, static_cast<uint32_t>(*token)});
        return {};
    }

    // ---- repetitions ------------------------------------------------------------------------------------------------

    Status read_times(int & times) {
        const std::string_view digits = read_digits();
        if (digits.empty()) { return wrong("a number belongs behind '{'"); }
        times = digits.size() <= 6 ? std::stoi(std::string(digits)) : kMostGrammarTimes + 1;
        if (times <= kMostGrammarTimes) { return {}; }
        return wrong("something is repeated " + std::string(digits.substr(0, kMostShown)) +
                     " times: " + std::to_string(kMostGrammarTimes) + " at most, or without end ({3,}, * or +)");
    }

    // high below 0: no end.
    Status read_repetition(Symbols & symbols, size_t last, int depth) {
        int low = 0;
        int high = -1;
        const bool lines_too = depth > 0;
        const char kind = here();
        skip(1);
        if (kind == '+') { low = 1; }
        if (kind == '?') { high = 1; }
        if (kind == '{') {
            skip_blanks(lines_too);
            PITH_RETURN_IF_ERROR(read_times(low));
            high = low;
            skip_blanks(lines_too);
            if (take(',')) {
                skip_blanks(lines_too);
                high = -1;
                if (is_digit(here())) { PITH_RETURN_IF_ERROR(read_times(high)); }
                skip_blanks(lines_too);
            }
            if (!take('}')) { return wrong("'}' is missing"); }
            if (high >= 0 && high < low) {
                return wrong("{" + std::to_string(low) + "," + std::to_string(high) + "} is no range");
            }
        }
        return repeat(symbols, last, low, high);
    }
    Status repeat(Symbols & symbols, size_t last, int low, int high) {
        GrammarSymbol item = symbols[last];
        if (symbols.size() - last > 1) {
            const uint32_t rule = make_rule();
            PITH_RETURN_IF_ERROR(count(symbols.size() - last));
            add_alternative(rule, Symbols(symbols.begin() + static_cast<std::ptrdiff_t>(last), symbols.end()));
            item = {GrammarKind::kRule, rule};
        }
        symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(last), symbols.end());
        PITH_RETURN_IF_ERROR(count(static_cast<size_t>(low) + 1));
        symbols.insert(symbols.end(), static_cast<size_t>(low), item);
        if (high == low) { return {}; }
        uint32_t rest = 0;
        if (high < 0) {
            PITH_RETURN_IF_ERROR(count(4));
            rest = make_rule();
            add_alternative(rest, {item, {GrammarKind::kRule, rest}});
            add_alternative(rest, {});
        } else {
            PITH_RETURN_IF_ERROR(at_most(item, high - low, rest));
        }
        symbols.push_back({GrammarKind::kRule, rest});
        return {};
    }
    // The rule that says the item so often at most; whoever repeats the same shares it.
    Status at_most(GrammarSymbol item, int times, uint32_t & rule) {
        std::vector<uint32_t> & chain = chains_[item];  // of one time, two times, …
        while (std::ssize(chain) < times) {
            PITH_RETURN_IF_ERROR(count(4));
            const uint32_t next = make_rule();
            Symbols symbols = {item};
            if (!chain.empty()) { symbols.push_back({GrammarKind::kRule, chain.back()}); }
            add_alternative(next, symbols);
            add_alternative(next, {});
            chain.push_back(next);
        }
        rule = chain[static_cast<size_t>(times - 1)];
        return {};
    }

    // ---- the whole --------------------------------------------------------------------------------------------------

    Status check_rules() {
        for (uint32_t rule = 0; rule < rules_.size(); ++rule) {
            if (!rules_[rule].is_known) {
                return {ErrorCode::kInvalidArgument,
                        "the grammar cannot be read: the rule " + name_of(rule) + " is used, and nothing says what it is"};
            }
        }
        const auto root = numbers_.find("root");
        if (root == numbers_.end()) {
            return {ErrorCode::kInvalidArgument, "the grammar cannot be read: it is GBNF with a rule called root"};
        }
        grammar_.root = root->second;
        return {};
    }
    void put_rules_together() {
        for (const Rule & rule : rules_) {
            grammar_.first.push_back(static_cast<uint32_t>(grammar_.begins.size()));
            grammar_.begins.insert(grammar_.begins.end(), rule.begins.begin(), rule.begins.end());
        }
        grammar_.first.push_back(static_cast<uint32_t>(grammar_.begins.size()));
    }

    const TokenOfText & token_of_text_;
    Grammar grammar_;
    std::vector<Rule> rules_;
    std::vector<std::string_view> names_;
    std::unordered_map<std::string_view, uint32_t> numbers_;  // of the rules that have a name
    uint32_t name_ = 0;                                       // of the rule that is being read
    size_t n_symbols_ = 0;
    std::unordered_map<char32_t, uint32_t> alone_;  // sets of one character
    std::optional<uint32_t> any_;
    std::map<GrammarSymbol, std::vector<uint32_t>> chains_;
};

}  // namespace

std::vector<char32_t> merged_spans(std::vector<std::pair<char32_t, char32_t>> spans) {
    std::ranges::sort(spans);
    std::vector<char32_t> bounds;
    for (const auto & [low, high] : spans) {
        if (high < low) { continue; }
        if (!bounds.empty() && low <= bounds.back() + 1) {
            bounds.back() = std::max(bounds.back(), high);
        } else {
            bounds.insert(bounds.end(), {low, high});
        }
    }
    return bounds;
}

bool any_between(std::span<const char32_t> bounds, char32_t low, char32_t high) {
    // The first bound at `low` or above ends a pair that holds it, or begins the next pair.
    const auto bound = std::ranges::lower_bound(bounds, low);
    const bool is_inside = (bound - bounds.begin()) % 2 == 1;
    return bound != bounds.end() && (is_inside || *bound <= high);
}

bool Grammar::holds(const CharacterSet & set, char32_t character) const {
    return any_between(bounds_of(set), character, character) != set.all_others;
}

Result<Grammar> read_grammar(std::string_view text, const TokenOfText & token_of_text) {
    if (text.size() > kMostGrammarBytes) {
        return {ErrorCode::kInvalidArgument,
                "the grammar has " + std::to_string(text.size()) + " bytes: " + std::to_string(kMostGrammarBytes) + " at most"};
    }
    if (const auto offset = invalid_utf8_offset(text)) {
        return {ErrorCode::kInvalidArgument, "the grammar is not UTF-8: byte " + std::to_string(*offset)};
    }
    return GrammarReader(text, token_of_text).read();
}

}  // namespace pith
