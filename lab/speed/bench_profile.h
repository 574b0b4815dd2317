// bench_profile.h - where a token's time goes: one prompt and some decoded tokens under each policy, part by part. Stage:
// bench.
//
// Both are done twice on the same tokens, plainly and profiled: a profiled graph runs in pieces (graph_profile.h), and the
// difference of the two totals is what that costs. The parts sum to the profiled total.
//   weights     products with weights, embeddings        attention   writing K and V, attending
//   activations norms, rotation, activations, sums       evidence    capturing and gathering for the policy
//   policy      score, refine, allocate, select          compaction  applying plans
//   sampling    picking the best of the logits           graphs      building and planning, inputs and outputs
//   other       what is left: the session's own bookkeeping, and what nobody timed
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

struct ProfileOptions {
    SessionOptions session;  // threads, types, budget, schedule; the policy comes from `policies`
    std::vector<PolicyChoice> policies = {"full"};
    std::vector<int64_t> depths = {512};  // tokens of the prompt
    int n_generate = 256;                 // decoded behind it
    int n_repetitions = 1;                // of the decoding, each from the same state; the prompt is run once
    uint32_t seed = 1;
    std::function<void(const std::string & what)> progress;
    const std::atomic<bool> * cancel = nullptr;
};

struct TimePart {
    std::string name;
    double seconds = 0;
};

struct PhaseProfile {
    std::string name;  // prefill, decode
    int64_t n_tokens = 0;
    double plain_s = 0;  // the same tokens, not profiled
    double total_s = 0;
    std::vector<TimePart> parts;  // sum: total_s
};

struct ProfileRow {
    int64_t depth = 0;
    std::string policy;
    std::string budget;  // empty: no limit
    std::vector<PhaseProfile> phases;
};

Result<std::vector<ProfileRow>> measure_profile(const Model & model, const ProfileOptions & options);

}  // namespace pith
