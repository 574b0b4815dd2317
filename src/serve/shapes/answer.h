// answer.h - what the engine tells of an answer, piece by piece, and at its end. Stage: serve.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "pith/ledger.h"
#include "text/tool_call_splitter.h"

namespace pith::serve {

struct TokenLogprob {
    int32_t token = 0;
    float logprob = 0;   // of the model's own distribution, before any sampler
    int64_t offset = 0;  // characters of the answer's tokens before it
    std::vector<std::pair<int32_t, float>> top;
};

struct AnswerCosts {
    int64_t n_prompt = 0;
    int64_t n_cached = 0;          // of these, read for an earlier request, or for another answer
    int64_t n_generated = 0;       // the token that ended it included
    int64_t n_thought = 0;         // of these, in thoughts
    int64_t n_evicted_before = 0;  // of the ledger's evicted entries: in the prompt, and counted with another answer to it
    double queue_s = 0;            // until it began to be read
    double prompt_s = 0;           // until the first token
    double predict_s = 0;          // from the first to the last
    Ledger ledger;
};

struct AnswerPiece {
    std::string text;  // whole characters
    std::vector<TokenLogprob> logprobs = {};
    std::shared_ptr<const AnswerCosts> costs = {};  // so far, where they were asked for
    std::string reasoning = {};                     // what was thought, apart from what is said
    std::vector<ToolCallPiece> calls = {};

    bool says_nothing() const { return text.empty() && reasoning.empty() && calls.empty(); }
};

struct AnswerEnd {
    bool by_length = false;   // else the model ended, or a stop text came
    bool has_called = false;  // a function
    int prompt = 0;           // which of the request's it answers
    std::string stop;         // the stop text that came; empty: none
    AnswerCosts costs;
};

}  // namespace pith::serve
