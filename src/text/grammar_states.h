// grammar_states.h - where in its grammar a text may stand, and where it stands after one character more. Stage: text.
// Pure C++: no libllama. Threads: one at a time.
//
// A place is a stack: the symbol that comes next, and what follows once its rule is done. Stacks are chains of nodes, each of
// which is made once, so a stack costs its newest node and equal ones are one. A state is the set of all places; states are
// made once, too, and remember where each kind of character leads: a grammar becomes a finite automaton as far as it is walked.
// Characters that no set of the grammar tells apart are of one kind.
//
// Some grammars have ever more places (S ::= "a" S "b" | "a" S "c" doubles them with every a). So work is counted: whoever asks
// allows so much of it, and where it is spent, or the tables are full, every answer is kDead and is_spent() says why.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "text/grammar.h"

namespace pith {

class GrammarStates {
public:
    static constexpr uint32_t kDead = 0;  // no text goes on from there

    // REQUIRES: no rule begins with itself (read_grammar() looks).
    explicit GrammarStates(Grammar grammar);

    // So many steps from here on, each of which takes some ten nanoseconds.
    void allow(int64_t n_steps) { n_left_ = n_steps; }
    int64_t n_left() const { return n_left_; }
    bool is_spent() const { return n_left_ < 0; }

    uint32_t start();
    uint32_t next(uint32_t state, char32_t character);
    // By a token that the grammar names, whatever its text.
    uint32_t next_token(uint32_t state, int32_t token);
    struct NamedTokens {
        std::set<uint32_t> these;
        bool others = false;  // all but these
        bool any() const { return others || !these.empty(); }
        bool has(int32_t token) const { return these.contains(static_cast<uint32_t>(token)) != others; }
    };
    NamedTokens named_tokens(uint32_t state);
    uint32_t both(uint32_t one, uint32_t other);
    bool may_end(uint32_t state) const;
    // A character from low to high goes on there.
    bool goes_on(uint32_t state, char32_t low, char32_t high);

    // Where the tables are half full: all states but one are given up; returns what it is called now.
    uint32_t make_room(uint32_t state);
    // All of them, and their memory.
    void forget() { begin_tables(); }

private:
    struct Node {
        uint32_t symbol = 0;  // in Grammar::symbols, what comes next
        uint32_t behind = 0;  // the node for what follows its alternative; 0: nothing
    };
    struct Hash {
        size_t operator()(const std::vector<uint32_t> & members) const;
    };
    // What may come next in a state, to be searched: it may have thousands of members.
    struct Ways {
        std::vector<char32_t> characters;                    // pairs of bounds, as a set's: all that some member wants
        std::vector<std::pair<char32_t, uint32_t>> singles;  // members that want this one character, ascending
        std::vector<uint32_t> others;                        // members that want one of several
    };
    static constexpr uint32_t kNothing = 0;  // the node of a text that may end

    void begin_tables();
    void spend(size_t n_steps) { n_left_ -= static_cast<int64_t>(n_steps); }
    uint32_t node(uint32_t next_symbol, uint32_t rest);
    uint32_t behind(uint32_t at) { return node(nodes_[at].symbol + 1, nodes_[at].behind); }
    GrammarSymbol symbol(uint32_t at) const { return grammar_.symbols[nodes_[at].symbol]; }
    uint32_t state_of(std::vector<uint32_t> open);
    uint32_t state_called(std::vector<uint32_t> members);
    uint32_t kind_of(char32_t character) const;
    const Ways & ways_of(uint32_t state);
    bool holds_kind(uint32_t set, uint32_t kind);

    Grammar grammar_;
    std::vector<char32_t> borders_;  // where another kind of character begins
    std::array<uint32_t, 128> ascii_kinds_{};
    int64_t n_left_ = 0;

    std::vector<Node> nodes_;
    std::unordered_map<uint64_t, uint32_t> node_numbers_;  // by symbol and behind
    std::vector<uint32_t> seen_;                           // of each node: in which round
    uint32_t round_ = 0;
    std::unordered_map<std::vector<uint32_t>, uint32_t, Hash> state_numbers_;  // by the nodes, ascending
    std::vector<const std::vector<uint32_t> *> states_;                        // the keys there
    size_t n_members_ = 0;                                                     // of all states
    std::unordered_map<uint64_t, uint32_t> next_;                              // by state and kind
    std::unordered_map<uint32_t, Ways> ways_;                                  // by state
};

}  // namespace pith
