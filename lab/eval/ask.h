// ask.h - one unit of an evaluation on a model: prefill, evict, ask, answer. Stage: eval.
// Errors: those of sessions; what `emit` returns.   Threads: units on several threads share the model.
#pragma once

#include "eval/evaluate.h"

namespace pith {

// Asks the unit's questions under every case that `wanted` says yes to. emit: the answers of one case, all turns together.
using EmitAnswers = std::function<Status(const std::vector<Answer> & answers)>;
Status ask_unit(const Model & model, const Tokenizer & tokenizer, const EvalOptions & options, const EvalUnit & unit,
                const std::vector<PolicyCase> & cases, const WantCase & wanted, const RunHooks & hooks,
                const EmitAnswers & emit);

}  // namespace pith
