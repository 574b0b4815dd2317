// regular_texts.h - sets of texts that patterns, formats, lengths and ranges of numbers describe, and what is in several of
// them at once, or in one and not in another. Stage: text.
// Pure C++. Threads: one at a time.
//
// A set is a term: characters, one set behind another, either of several, all of several, all others, repetitions, numbers that
// are multiples. What may follow a first character is such a term again, its derivative, so a term is walked like an automaton,
// and intersection and complement cost no more than a union. Equal terms are one. Source: Brzozowski, Derivatives of regular
// expressions, 1964; Owens, Reppy, Turon, Regular-expression derivatives re-examined, 2009.
// Cost: a term may have exponentially many derivatives, so terms, steps and states are counted, and too many are an error
// of this and of all that is asked later.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "pith/status.h"

namespace pith {

// Pairs of bounds, both included, ascending, which do not touch.
using Characters = std::vector<char32_t>;

// One state for every text that leads to the same; the first is where texts begin.
struct TextAutomaton {
    struct Edge {
        Characters on;
        uint32_t to = 0;
    };
    struct State {
        bool may_end = false;
        std::vector<Edge> edges;  // no two share a character
    };
    std::vector<State> states;  // from each of them a text may end; none: there is no text
};

class RegularTexts {
public:
    using Id = uint32_t;
    static constexpr Id kNothing = 0;  // no text
    static constexpr Id kEmpty = 1;    // the empty text alone
    static constexpr Id kAll = 2;      // every text

    RegularTexts();

    Id one_of(Characters characters);
    Id literal(std::u32string_view text);
    Id then(Id one, Id other);
    Id either(std::vector<Id> sets);
    Id both(std::vector<Id> sets);
    Id all_but(Id set);
    // high below 0: without end.
    Id times(Id set, int low, int high);
    // Digits, or none, whose number is a multiple.   REQUIRES: of > 0.
    Id multiples(uint32_t of) { return multiple(of, 0); }

    // Nothing: it cannot be told within the limits.
    std::optional<bool> holds(Id set, std::u32string_view text);
    // Errors: kInvalidArgument: it has more states than that, or takes too much work.
    Result<TextAutomaton> automaton(Id set, size_t most_states);

private:
    enum class Kind : uint8_t { kEither, kEmpty, kCharacters, kThen, kBoth, kAllBut, kTimes, kMultiple };
    struct Term {
        Kind kind = Kind::kEither;
        bool may_end = false;
        std::vector<uint32_t> of;  // other terms; of characters the number of their set; numbers
    };
    struct Hash {
        size_t operator()(const std::vector<uint32_t> & key) const;
    };

    Id term(Kind kind, std::vector<uint32_t> of, bool may_end);
    Id multiple(uint32_t of, uint32_t rest);
    Id joined(Kind kind, std::vector<Id> sets);
    Id behind(Id set, char32_t first);  // the derivative
    void borders(Id set, std::set<Id> & seen, std::vector<char32_t> & out);
    bool is_spent() const { return n_steps_ > kMostSteps || terms_.size() > kMostTerms; }

    // Of all that is asked, together: about a second, and 50 MB.
    static constexpr size_t kMostTerms = 150'000;
    static constexpr int64_t kMostSteps = 1'000'000;

    std::vector<Term> terms_;
    std::unordered_map<std::vector<uint32_t>, Id, Hash> numbers_;  // of the terms, by kind and `of`
    std::vector<Characters> sets_;
    std::map<Characters, uint32_t> set_numbers_;
    std::unordered_map<uint64_t, Id> behind_;  // by term and character
    int64_t n_steps_ = 0;
};

}  // namespace pith
