// run_report.h - what `pith run` prints behind its answers.
#pragma once

#include "app/run/run_flags.h"
#include "app/run/run_outcome.h"
#include "pith/text.h"

namespace pith::app {

// The ledger on stderr, or all of it as JSON on stdout.
void print_outcome(const RunFlags & flags, const Tokenizer & tokenizer, const RunOutcome & outcome, bool interrupted);

}  // namespace pith::app
