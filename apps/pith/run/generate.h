// generate.h - turns logits into text, token by token, until the model ends, the limit is reached, or the user stops it.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "pith/session.h"
#include "pith/text.h"

namespace pith::app {

struct GenerateOptions {
    int64_t n_predict = 512;  // negative: until the model ends
    bool ignore_eos = false;
    bool stream = true;  // write to stdout as it comes
    const std::atomic<bool> * cancel = nullptr;
    // The answer ends with the token that completes one of these, which is said; none is empty. Special tokens count by name.
    std::vector<std::string> reverse_prompts;
    int n_logprobs = 0;  // log-probabilities of each token said, and of so many likeliest ones; 0: none
    // Gets the model's own logits [n_vocab] in front of each choice: those after the prompt, then after each token that was
    // fed. An error ends the answer.
    std::function<Status(std::span<const float> logits)> on_logits;
};

// Of a token, by the softmax of the model's own logits, before any sampler.
struct TokenLogprobs {
    float logprob = 0;
    std::vector<std::pair<int32_t, float>> top;  // the likeliest tokens, the first one most
};

struct Generated {
    std::string text;
    std::vector<int32_t> tokens;          // the text's, in their order
    std::vector<TokenLogprobs> logprobs;  // [tokens], where they were asked for
    int64_t n_generated = 0;
    std::string stop;    // "end", "limit", "reverse-prompt" or "interrupt"
    int32_t unfed = -1;  // the last of `tokens`, where the session has not been given it; -1: it has all
};

// REQUIRES: the session holds the prompt. Whole characters only reach the screen.
Result<Generated> generate(Session & session, const Tokenizer & tokenizer, Sampler & sampler, const GenerateOptions & options);

}  // namespace pith::app
