// grammar_matcher.h - which tokens may come next under a grammar. Stage: text.
//
// Not libllama's: that one reads grammars by recursion, so brackets enough in a client's grammar end the process, and keeps
// every way to read a text, of which `[a-z]? ` 200 times has more than can be counted, on a thread that everybody waits for.
// Here a grammar may cost so much work at first and so much with each token (GrammarStates counts it); one that wants more is
// an error of whoever sent it. Threads: one at a time. Cost: allows() and accept() O(bytes of the token) once their states are
// known, allowed() O(bytes of the vocabulary).
#pragma once

#include <cstdint>
#include <string_view>
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
    Status check_work() const;

    GrammarStates states_;
    const TokenTexts * texts_;
    Place place_;
    bool has_begun_ = false;
    std::vector<Place> path_;  // allowed()'s own
};

}  // namespace pith
