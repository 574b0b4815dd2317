// generate.h - turns logits into text, token by token, until the model ends, the limit is reached, or the user stops it.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "pith/session.h"
#include "pith/text.h"

namespace pith::app {

struct GenerateOptions {
    int64_t n_predict = 512;  // negative: until the model ends
    bool ignore_eos = false;
    bool stream = true;  // write to stdout as it comes
    const std::atomic<bool> * cancel = nullptr;
};

struct Generated {
    std::string text;
    int64_t n_generated = 0;
    std::string stop;  // "end", "limit" or "interrupt"
};

// REQUIRES: the session holds the prompt. Whole characters only reach the screen.
Result<Generated> generate(Session & session, const Tokenizer & tokenizer, Sampler & sampler, const GenerateOptions & options);

}  // namespace pith::app
