// parallel_run.h - `pith run --parallel N`: the answers of `pith run`, up to N of them at a time through one pass over the
// weights (pith/batch_engine.h). Questions on one text go on from one reading of it, which they share.
//
// Answers come out whole and in order, as soon as all before them have. One that fails ends the run when its turn comes.
#pragma once

#include <string>
#include <vector>

#include "app/run/run_flags.h"
#include "app/run/run_outcome.h"
#include "pith/model.h"
#include "pith/session.h"
#include "pith/text.h"
#include "text/prompt.h"

namespace pith::app {

// Flags that mean one answer after the other.   Errors: kInvalidArgument.
Status check_parallel(const RunFlags & flags, const SessionOptions & options);

// All must live as long as the run.
struct ParallelRun {
    const RunFlags & flags;
    const SamplerOptions & sampler;
    const std::vector<std::string> & reverse_prompts;
    const SessionOptions & options;
    const Model & model;
    const Tokenizer & tokenizer;
    const Prompt & prompt;
    const PromptRequest & request;
};

// shared: the context is read once, else with each question. Ctrl-C keeps what was said so far.
// Errors: those of Engine, and of the first request that failed.
Result<RunOutcome> run_parallel(const ParallelRun & job, bool shared);

}  // namespace pith::app
