// grammar.h - a grammar in GBNF, read into rules that a matcher can follow. Stage: text.
// Pure C++: no libllama. Threads: pure functions; a Grammar is a value.
//
// Clients send grammars, so nothing here costs more than their length says: reading takes one pass and little stack, and what
// is large, nested deeply, repeated often, or begins with itself is refused. Repetitions become rules: S* is R ::= S R |
// nothing, S{2,4} is S S and two rules, each of which says S and the next one, or nothing. Source: llama.cpp's
// grammars/README.md.   Differs: S{3,2} and empty brackets [] are errors.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "pith/status.h"

namespace pith {

inline constexpr char32_t kMostCharacter = 0x10FFFF;
inline constexpr size_t kMostGrammarBytes = size_t{512} << 10;
inline constexpr size_t kMostGrammarSymbols = size_t{512} << 10;  // once repetitions are rules
inline constexpr int kMostGrammarDepth = 200;                     // of brackets inside of brackets
inline constexpr int kMostGrammarTimes = 10'000;                  // of {m,n}

enum class GrammarKind : uint32_t {
    kEnd,         // of an alternative
    kRule,        // value: its number
    kCharacters,  // value: the number of a set
    kToken,       // value: this token and no other, <name> or <[5]>
    kOtherToken,  // any but this one, !<name>
};

// Four bytes: a grammar may have many.
class GrammarSymbol {
public:
    GrammarSymbol(GrammarKind kind, uint32_t value) : packed_((value << kKindBits) | static_cast<uint32_t>(kind)) {}
    GrammarKind kind() const { return static_cast<GrammarKind>(packed_ & ((1U << kKindBits) - 1)); }
    uint32_t value() const { return packed_ >> kKindBits; }
    auto operator<=>(const GrammarSymbol &) const = default;

    static constexpr uint32_t kKindBits = 3;
    static constexpr uint32_t kMostValue = UINT32_MAX >> kKindBits;

private:
    uint32_t packed_;
};

// Characters between pairs of bounds, both of them included; or all others. The pairs are ascending, and do not touch.
struct CharacterSet {
    uint32_t begin = 0;  // in Grammar::bounds
    uint32_t end = 0;
    bool all_others = false;
};

// Pairs of bounds as a set has them; spans may overlap, and one that ends before it begins holds nothing.
std::vector<char32_t> merged_spans(std::vector<std::pair<char32_t, char32_t>> spans);
// Whether some pair of them has a character from low to high.   Cost: logarithmic.
bool any_between(std::span<const char32_t> bounds, char32_t low, char32_t high);

struct Grammar {
    std::vector<GrammarSymbol> symbols;  // alternatives, each up to its kEnd; the first is a kEnd alone
    std::vector<uint32_t> begins;        // of all alternatives, rule by rule
    std::vector<uint32_t> first;         // of each rule, in begins; one more at the end
    std::vector<CharacterSet> sets;
    std::vector<char32_t> bounds;
    uint32_t root = 0;  // the rule
    // Of each rule: whether it may say nothing, and its rank: a rule begins with others of lower ranks, or of its own where all
    // of these say the same.
    std::vector<bool> may_be_empty;
    std::vector<uint32_t> ranks;

    size_t n_rules() const { return first.size() - 1; }
    // Where the rule's alternatives begin.
    std::span<const uint32_t> alternatives(uint32_t rule) const {
        return std::span(begins).subspan(first[rule], first[rule + 1] - first[rule]);
    }
    std::span<const char32_t> bounds_of(const CharacterSet & set) const {
        return std::span(bounds).subspan(set.begin, set.end - set.begin);
    }
    bool holds(const CharacterSet & set, char32_t character) const;
};

// The one token whose text that is, marks such as <|im_end|> among them.
using TokenOfText = std::function<std::optional<int32_t>(std::string_view)>;

// The rule called root is where it begins. Errors: kInvalidArgument: names the line and what is wrong, or the limit.
Result<Grammar> read_grammar(std::string_view text, const TokenOfText & token_of_text);

// Leaves out alternatives from which no text ends: of rules that cannot do without themselves, or say a class without a
// character. Whether one ends from the root. Cost: linear, no recursion.
bool keep_what_ends(Grammar & grammar);

// Fills may_be_empty and ranks. Whether following the rules ends: not where a rule begins with itself and goes on behind that,
// however many rules and empty ones stand between. The number of such a rule, or nothing. Cost: linear, no recursion.
std::optional<uint32_t> rule_that_begins_with_itself(Grammar & grammar);

}  // namespace pith
