// run_job.h - what `pith run` is to do, for both of its ways: one answer after the other (serial_run.h), many at a time
// (parallel_run.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "app/run/generate.h"
#include "app/run/run_flags.h"
#include "app/run/run_outcome.h"
#include "pith/model.h"
#include "pith/session.h"
#include "pith/text.h"
#include "text/prompt.h"

namespace pith::app {

// All must live as long as the run.
struct RunJob {
    const RunFlags & flags;
    const SamplerOptions & sampler;
    const std::vector<std::string> & reverse_prompts;
    const SessionOptions & options;
    const Model & model;
    const Tokenizer & tokenizer;
    const Prompt & prompt;
    const PromptRequest & request;

    bool shares_context() const;         // it is read once, for all questions; else with each of them
    int n_question(size_t index) const;  // tokens at the end of the whole prompt that ask
    std::vector<int32_t> all_questions() const;
    GenerateOptions answer_options() const;  // all but what hangs on the way: length, stream, cancel, logits
};

// A context was compressed, its questions of so many tokens in sight or not.
void tell_of_sight(const RunJob & job, bool seen, size_t n_tokens, const Ledger & ledger, RunOutcome & outcome);

}  // namespace pith::app
