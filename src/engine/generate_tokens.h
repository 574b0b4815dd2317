// generate_tokens.h - tokens one after the other, behind what a session holds, until one of them is the last. Stage: engine.
//
// The loop of everybody who generates: who chooses a token, what is done with it and what ends an answer is theirs.
// Threads: one at a time, as the session.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <span>

#include "core/likeliest_token.h"
#include "pith/session.h"

namespace pith {

struct GenerateRules {
    int64_t n_predict = -1;  // at most so many tokens; negative: no limit
    const std::atomic<bool> * cancel = nullptr;
    std::function<Result<int32_t>(std::span<const float> logits)> choose;  // empty: likeliest_token
    std::function<bool(int32_t token)> ends;                               // it is not said, and nothing follows
    std::function<bool(int32_t token)> say;                                // false: nothing follows
    // Each token is fed as soon as it is chosen. Else before the next one is: what comes last is left to the caller.
    bool feeds_last = false;
};

enum class GenerateEnd { kLimit, kEnded, kSaid, kCancelled };

struct GeneratedTokens {
    GenerateEnd end = GenerateEnd::kLimit;
    int32_t unfed = -1;  // said, and not given to the session; -1: it has all
};

// REQUIRES: the session holds a prompt.   Errors: those of choose and of Session::append().
Result<GeneratedTokens> generate_tokens(Session & session, const GenerateRules & rules);

}  // namespace pith
