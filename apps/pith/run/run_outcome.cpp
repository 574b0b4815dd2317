// run_outcome.cpp - the warnings.
#include "app/run/run_outcome.h"

#include <algorithm>
#include <cstdio>

#include "common/base/errors.h"
#include "common/base/flag_names.h"
#include "core/text.h"

namespace pith::app {

int tell_of_failures(const RunOutcome & outcome, size_t n_prompts) {
    int n_failed = 0;
    for (size_t i = 0; i < outcome.answers.size(); ++i) {
        const Status & failure = outcome.answers[i].generated.failure;
        if (failure.ok() || message_of(failure) == message_of(outcome.failure)) { continue; }
        const std::string which = n_prompts > 1 ? "prompt " + std::to_string(i + 1) + ": " : "";
        fail({failure.code(), which + message_of(failure)});
        ++n_failed;
    }
    if (!outcome.failure.ok()) { return fail(outcome.failure); }
    return n_failed > 0 ? kExitFailed : kExitOk;
}

void warn_of_roomy_budget(const Budget & budget, const Ledger & ledger, size_t n_tokens) {
    if (budget.kind != BudgetKind::kBytes || ledger.budget_entries < static_cast<int64_t>(n_tokens)) { return; }
    warn("--budget " + budget.to_string() + " holds " + with_commas(ledger.budget_entries) +
         " tokens per head and the prompt has " + with_commas(static_cast<int64_t>(n_tokens)) + ": nothing of it is evicted");
}

void warn_of_unseen_questions(const Ledger & ledger, size_t n_tokens, int chunk, const std::string & or_else) {
    warn("the context was compressed without its questions: " +
         (ledger.gate_peak_bytes > 0 ? "the model's gates decide before they are read"
                                     : "their " + std::to_string(n_tokens) + " tokens are more than a chunk (--chunk " +
                                           std::to_string(chunk) + "; less where --budget is few bytes)") +
         or_else);
}

void tell_of_missed(double kv_missed, int64_t n_returned, int64_t n_lanes) {
    const auto per_head = (n_returned + n_lanes / 2) / std::max<int64_t>(1, n_lanes);
    std::fprintf(stderr,
                 "%.0f %% of this question's attention to the text goes to what was evicted; %s tokens per head came back\n",
                 100 * kv_missed, n_returned == 0 ? "no" : with_commas(per_head).c_str());
}

}  // namespace pith::app
