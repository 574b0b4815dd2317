// grammar_states.h - where in its grammar a text may stand, and where it stands after one character more. Stage: text.
// Pure C++: no libllama. Threads: one at a time.
//
// A place is what comes next, and the set of places that follow once its rule is done. All that is said of one rule where it
// begins goes on with one such set, however many rules called it there, so what was read in many ways is one place: the number
// of places grows with the grammar and the text, not with the ways. Places and sets are made once, and equal ones are one. A
// state is a set of places; states remember where each kind of character leads: a grammar becomes a finite automaton as far as
// it is walked. Characters that no set of the grammar tells apart are of one kind.
// Source: Earley, An efficient context-free parsing algorithm, 1970; Aycock, Horspool, Practical Earley parsing, 2002 (rules
// that may be empty); Scott, Johnstone, GLL parsing, 2010 (stacks whose ends are one).
//
// Work is counted all the same: whoever asks allows so much of it, and where it is spent, or the tables are full, every answer
// is kDead and is_spent() says why.
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

    // The state without what follows its rules and those that called them, three calls up (a string's characters, their
    // repetition, the string): equal wherever these stand, however deep. Behind their end it may_leave(), and nothing more is
    // known.
    uint32_t inside_of(uint32_t state);
    bool may_leave(uint32_t state) const { return may_leave_[state]; }
    // There is a way on that is known, besides leaving.
    bool is_known_to_go_on(uint32_t state) const;

    // Where the tables are half full: all states but one are given up; returns what it is called now.
    uint32_t make_room(uint32_t state);
    // How often that was so: what was called by a number before is no more.
    uint32_t n_rooms() const { return n_rooms_; }
    // All of them, and their memory.
    void forget() { begin_tables(); }

private:
    struct Node {
        uint32_t symbol = 0;  // in Grammar::symbols, what comes next
        uint32_t behind = 0;  // the state, not followed up yet, of what comes after its rule
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
    static constexpr uint32_t kOutside = 1;  // of what follows a rule, where that is not known
    static bool is_place(uint32_t at) { return at != kNothing && at != kOutside; }

    void begin_tables();
    void spend(size_t n_steps) { n_left_ -= static_cast<int64_t>(n_steps); }
    uint32_t node(uint32_t next_symbol, uint32_t rest);
    bool is_last(uint32_t at) const { return grammar_.symbols[nodes_[at].symbol + 1].kind() == GrammarKind::kEnd; }
    void add_behind(uint32_t at, std::vector<uint32_t> & open);
    void add_rules(const std::vector<uint32_t> & calls, std::vector<uint32_t> & open);
    GrammarSymbol symbol(uint32_t at) const { return grammar_.symbols[nodes_[at].symbol]; }
    uint32_t state_of(std::vector<uint32_t> open);
    uint32_t without_calls(uint32_t state, uint32_t n_kept);
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
    std::vector<uint32_t> called_;                         // of each rule: in which round it was begun
    uint32_t round_ = 0;
    uint32_t n_rooms_ = 0;
    using StateNumbers = std::unordered_map<std::vector<uint32_t>, uint32_t, Hash>;
    StateNumbers state_numbers_;                         // by the nodes, ascending
    std::vector<const std::vector<uint32_t> *> states_;  // the keys there
    std::unordered_map<uint64_t, uint32_t> insides_;     // by state and calls that are kept
    std::vector<bool> may_leave_;                        // of each state
    size_t n_members_ = 0;                               // of all states
    std::unordered_map<uint64_t, uint32_t> next_;        // by state and kind
    struct Recent {
        uint64_t way = UINT64_MAX;
        uint32_t to = 0;
    };
    std::vector<Recent> recent_;               // of next_, those that were asked for last
    std::unordered_map<uint32_t, Ways> ways_;  // by state
};

}  // namespace pith
