// run_outcome.h - what `pith run` has to tell when it is over, and what it warns of on the way, whoever answered.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "app/run/generate.h"
#include "pith/budget.h"
#include "pith/ledger.h"

namespace pith::app {

// Original positions by layer and KV head.
using Positions = std::vector<std::vector<std::vector<int32_t>>>;

struct RunAnswer {
    std::string question;
    Generated generated;
    int64_t first_logits = 0;  // rows of --logits: [first_logits, end_logits)
    int64_t end_logits = 0;
    double kv_missed = -1;   // Ledger's, of this question
    int64_t n_returned = 0;  // entries that came back for it
};

struct RunOutcome {
    std::vector<RunAnswer> answers;
    std::vector<Positions> kept;   // of each session, at its end
    std::optional<bool> in_sight;  // several questions of one compressed context: whether it was compressed in their sight
    Ledger ledger;
    int64_t n_steps = 0;        // with --parallel: passes over the weights, and units of prompts that are read layer by layer
    double longest_unit_s = 0;  // of such a prompt: what it delayed others' tokens by at most; 0: there was none
    Status failure;             // what ended the run: answers are what there is until then
};

// Says so of each answer that failed ("prompt 3: …", where there are several), then what ended the run. The exit code.
int tell_of_failures(const RunOutcome & outcome, size_t n_prompts);

// Bytes that hold more than the prompt: whoever wanted a compressed cache has none.
void warn_of_roomy_budget(const Budget & budget, const Ledger & ledger, size_t n_tokens);
// The context was compressed, and not in the sight of its questions of so many tokens. or_else: what to do about it, at the
// end.
void warn_of_unseen_questions(const Ledger & ledger, size_t n_tokens, int chunk, const std::string & or_else);

// What a question looked for among what was evicted (Ledger::kv_missed), and how many entries came back for it: a line on
// stderr.
void tell_of_missed(double kv_missed, int64_t n_returned, int64_t n_lanes);

}  // namespace pith::app
