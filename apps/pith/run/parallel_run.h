// parallel_run.h - `pith run --parallel N`: the answers of `pith run`, up to N of them at a time through one pass over the
// weights (pith/batch_engine.h). Questions on one text go on from one reading of it, which they share.
//
// Answers come out whole and in order, as soon as all before them have. One that fails ends the run when its turn comes.
#pragma once

#include "app/run/run_job.h"

namespace pith::app {

// Flags that mean one answer after the other.   Errors: kInvalidArgument.
Status check_parallel(const RunFlags & flags, const SessionOptions & options);

// Ctrl-C keeps what was said so far.
// Errors: those of Engine, and of the first request that failed.
Result<RunOutcome> run_parallel(const RunJob & job);

}  // namespace pith::app
