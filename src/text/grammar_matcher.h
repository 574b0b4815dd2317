// grammar_matcher.h - which tokens may come next under a grammar. Stage: text.
//
// Not libllama's: that one reads grammars by recursion, so brackets enough in a client's grammar end the process, and keeps
// every way to read a text, of which `[a-z]? ` 200 times has more than can be counted, on a thread that everybody waits for.
// Here a grammar may cost so much work at first and so much with each token (GrammarStates counts it); one that wants more is
// an error of whoever sent it. Threads: one at a time. Cost: allows() and accept() O(bytes of the token) once their states are
// known, allowed() O(bytes of the vocabulary) where the state's rules are met for the first time, later O(tokens) and the bytes
// of those that end a rule. Source: that most tokens depend on the innermost rule alone: XGrammar, 2024.
#pragma once

#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "pith/status.h"
#include "text/grammar_states.h"
#include "text/token_texts.h"

namespace pith {

class GrammarMatcher {
public:
    // `texts` must outlive this. Errors: kInvalidArgument: there are too many ways to begin.
    static Result<GrammarMatcher> make(Grammar grammar, const TokenTexts & texts);

    // Whether the token may come next. What ends an answer may where the grammar may end. Errors, of all three:
    // kInvalidArgument: there are too many ways to go on.
    Result<bool> allows(int32_t token);
    // Of every token.   tokens [n_vocab], overwritten.
    Status allowed(std::vector<bool> & tokens);
    // REQUIRES: allows(token).
    Status accept(int32_t token);
    // The text begins anew.
    Status reset();

private:
    // Behind whole characters, and perhaps the first bytes of one more.
    struct Place {
        uint32_t state = GrammarStates::kDead;
        char32_t begun = 0;  // its bits so far
        uint8_t n_bytes = 0;
        uint8_t n_missing = 0;  // bytes; 0: none is begun
    };
    GrammarMatcher(Grammar grammar, const TokenTexts & texts) : states_(std::move(grammar)), texts_(&texts) {}
    Status begin();
    void go(Place & place, char byte);
    bool goes_on(const Place & place);
    struct Mask {
        std::vector<bool> tokens;               // that may come whatever follows the rules that the state is in
        std::vector<int32_t> few;               // the same, where they are few
        std::vector<TokenTexts::Place> others;  // that may come or not, as what follows says
    };
    // What tokens lead to from `from`: found(token, place, has_left), where it is somewhere, or perhaps is.
    template <class Found>
    void follow(const Place & from, const std::vector<TokenTexts::Place> & tokens, const Found & found);
    const Mask & mask_of(uint32_t inside);
    Status check_work() const;

    GrammarStates states_;
    const TokenTexts * texts_;
    Place place_;
    bool has_begun_ = false;
    std::vector<Place> path_;                   // follow()'s own
    std::vector<bool> has_left_;                // on the path so far
    std::unordered_map<uint32_t, Mask> masks_;  // by GrammarStates::inside_of()
    size_t n_mask_bytes_ = 0;
    uint32_t n_rooms_ = 0;  // of the states, when the masks were made
};

}  // namespace pith
