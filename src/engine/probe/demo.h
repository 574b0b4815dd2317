// demo.h - the main job, small: facts hidden in a long text, asked for under several policies and budgets. Stage: probe.
//
// Every policy meets the same texts. Question-aware: the policy decides while it sees the question at the end of the prompt
// (how the papers' accuracy is measured); context-only: the context is compressed first, the question comes later.
// Shared: one full prefill of a text serves all policies and budgets (Session::evict()), with the same answers; how fast each
// would prefill is then not measured.
// Errors: kInvalidArgument: no task has that name, or none fits; those of sessions and tokeniser.   Threads: one at a time.
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

struct DemoOptions {
    std::vector<std::string> tasks = {"single"};  // tasks/tasks.h; samples take turns
    std::vector<PolicyChoice> policies = {"full",       "random", "streaming", "snapkv", "h2o+caote",
                                          "criticalkv", "score",  "laprox",    "auto"};
    std::vector<Budget> budgets = {256, 128};
    int n_samples = 10;   // texts
    int n_tokens = 1024;  // of each text, question and answer included
    bool question_aware = true;
    bool share = false;
    int n_threads = 0;
    std::string heads_file;  // SessionOptions::heads_file
    uint64_t seed = 1;
    std::function<void(int n_done, int n_total)> progress;  // texts under a policy and budget
    // Told before the first: texts of this task are left out, because it does not fit n_tokens.
    std::function<void(int n_texts, const Status & why)> left_out;
    const std::atomic<bool> * cancel = nullptr;
};

struct DemoRow {
    std::string policy;
    std::string chosen;  // what `auto` became; empty: the policy was named
    std::string budget;  // as given; empty: no limit
    int n_samples = 0;
    double n_right = 0;        // sum of the scores, 0 … 1 each
    Interval right_interval;   // 95 %, of n_right / n_samples
    double kept_entries = 0;   // a lane, mean over lanes and texts, after the prompt
    double prompt_tokens = 0;  // mean
    size_t kv_bytes = 0;       // allocated after the prompt, mean
    double prefill_tps = 0;    // medians; shared: 0
    double decode_tps = 0;
    std::string note;  // shared: why this budget cannot hold this policy; empty: there are answers
};

Result<std::vector<DemoRow>> run_demo(const Model & model, const Tokenizer & tokenizer, const DemoOptions & options);

}  // namespace pith
