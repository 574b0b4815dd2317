// ask_together.h - units of an evaluation on one engine: their answers decode in one batch, whichever policy, budget or
// question they belong to. Stage: eval.
//
// A unit's prompt is read once, in full, and kept; each case goes on from it, evicts its own lanes, and is kept; each question
// goes on from that. Prompts that cannot be shared (chunks, gates) are requests of their own. The answers are those of
// ask_unit(), up to ties: in a batch logits differ by rounding.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "eval/ask.h"

namespace pith {

struct WantedUnit {
    const EvalUnit * unit = nullptr;
    std::vector<bool> cases;  // that have no answers yet
};
// Whether an engine can ask these: it has no budget `auto`, and no likelihoods of whole documents.
bool can_ask_together(const EvalOptions & options, const std::vector<PolicyCase> & cases);

// Asks units as long as `next` gives some; a new one begins while fewer than n_parallel answers are open. n_parallel: sequences
// that run at a time, >= 1. emit: the answers of one unit under one case. read: so many more tokens of prompts are read.
// Where the system gives no memory that caches can share, a unit is asked by itself.
// The seconds in answers are shares: of a step, each sequence that took part has the same.
Status ask_together(const Model & model, const Tokenizer & tokenizer, const EvalOptions & options,
                    const std::vector<PolicyCase> & cases, int n_parallel,
                    const std::function<std::optional<WantedUnit>()> & next, const std::atomic<bool> * cancel,
                    const EmitAnswers & emit, const std::function<void(int64_t n_more)> & read);

}  // namespace pith
