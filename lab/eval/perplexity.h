// perplexity.h - how much worse a model predicts a text's continuation when its beginning is compressed. Stage: eval.
//
// Held-out text: a prompt of n_tokens, evicted once under the policy, then n_continuation tokens, each predicted from the
// compressed prompt and all that came after it (nothing is evicted any more). Perplexity = exp of the mean negative log
// likelihood over all continuations; the difference is to the full cache on the same texts.
// Errors: those of sessions and tokeniser.   Threads: one at a time.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/interval.h"
#include "pith/budget.h"
#include "pith/model.h"
#include "pith/policy_choice.h"
#include "pith/text.h"

namespace pith {

struct PerplexityOptions {
    std::vector<PolicyChoice> policies;
    std::vector<Budget> budgets;
    int n_texts = 10;
    int n_tokens = 1024;  // of the prompt
    int n_continuation = 256;
    int n_threads = 0;
    uint64_t seed = 1;
    std::string heads_file;                                 // SessionOptions::heads_file
    std::function<void(int n_done, int n_total)> progress;  // policies and budgets, over all texts
    const std::atomic<bool> * cancel = nullptr;
};

struct PerplexityRow {
    std::string policy;
    std::string budget;  // as given; empty: no limit
    int n_texts = 0;
    double kept_entries = 0;  // a lane, mean over lanes and texts, after the prompt
    double perplexity = 0;
    double difference = 0;         // to the full cache's
    Interval difference_interval;  // 95 %, bootstrap over texts, paired
    std::string note;              // why there is no number; empty: there is one
};

// The first row is the full cache's.
Result<std::vector<PerplexityRow>> run_perplexity(const Model & model, const Tokenizer & tokenizer,
                                                  const PerplexityOptions & options);

}  // namespace pith
