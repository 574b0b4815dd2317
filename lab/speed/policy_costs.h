// policy_costs.h - what each policy adds to a one-shot prefill: evidence, plan, compaction. Stage: speed.
//
// One plain prefill of a random prompt is the yardstick. One more, observed for all policies at once, is then evicted under
// each of them and restored, in rounds of all policies:
//   capture     inside the prefill: reading the queries out, remembering, summing columns, moments (one measurement)
//   evidence    gathering what the policy's parts ask for
//   plan        score, refine, allocate, select
//   compaction  applying the plan and freeing memory
// The output projection's factors are made once per model and reported by themselves.
// Moments are timed by computing them once more from the queries after RoPE: the same operations on other numbers. Where the
// attention sums columns itself, it is run twice more: with the sums and without.
// Errors: those of sessions.   Threads: one at a time.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "pith/model.h"
#include "pith/session.h"

namespace pith {

struct PolicyCostOptions {
    SessionOptions session;  // threads, types, chunk, heads, budget; the policies come from `policies`
    std::vector<PolicyChoice> policies;
    int n_prompt = 8192;
    int n_repetitions = 3;
    uint32_t seed = 1;
    std::function<void(const std::string & what)> progress;
    const std::atomic<bool> * cancel = nullptr;
};

struct PolicyCost {
    std::string policy;
    double capture_s = 0;
    double evidence_s = 0;  // medians over the repetitions, as the next two
    double plan_s = 0;
    double compact_s = 0;
    std::vector<double> eviction_s;  // evidence + plan + compaction, one a round
    double share = 0;                // capture + median eviction, of the plain prefill
    std::string base;                // what it is compared with; empty: nothing
    double over_base = 0;            // the median over the rounds of its cost less the base's, of the plain prefill
    int64_t evicted_entries = 0;
    std::string note;  // why it could not be measured; empty: it was

    double total_s() const { return capture_s + evidence_s + plan_s + compact_s; }
};

struct PolicyCosts {
    double prefill_s = 0;  // plain: full cache, nothing observed
    double factors_s = 0;  // what is made of the output projection, once per model; 0: no policy wanted any
    int64_t budget_entries = 0;
    std::vector<PolicyCost> rows;
};

// What a policy is compared with: the same without CriticalKV's second stage ("critical-adakv" with adakv), else what stands in
// front of the first '+', else snapkv.
std::string base_policy(const std::string & policy);

// The bases are measured too, where they are not among the policies.
Result<PolicyCosts> measure_policy_costs(const Model & model, const PolicyCostOptions & options);

}  // namespace pith
