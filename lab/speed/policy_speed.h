// policy_speed.h - what a user waits for under each policy, and the memory it takes meanwhile. Stage: speed.
//
// For each length, chunk and budget a session for each policy reads a random prompt and decodes random tokens, in rounds of all
// policies, so that a machine's moods hit all of them. The full cache is measured with them.
//   first token   the whole prefill: forward passes, evidence, plan, compaction
//   token         mean over the decoded ones, evictions of SessionOptions::evict_every included
//   memory        the session's own: KV pages at their most, and what it computes with (evidence, activations)
// Errors: those of sessions; a budget that cannot hold what a policy protects is the row's note.   Threads: one at a time.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "pith/model.h"
#include "pith/session.h"

namespace pith {

struct PolicySpeedOptions {
    SessionOptions session;              // schedule, threads, types, evict_every; the rest is from the lists
    std::vector<PolicyChoice> policies;  // the full cache comes in front of them
    std::vector<int> lengths;            // tokens of a prompt
    std::vector<int> chunks = {kDefaultChunk};
    std::vector<Budget> budgets;
    int n_generate = 64;
    int n_repetitions = 3;
    uint32_t seed = 1;
    std::function<void(const std::string & what)> progress;
    const std::atomic<bool> * cancel = nullptr;
};

struct PolicySpeed {
    int length = 0;
    int chunk = 0;
    std::string budget;  // empty: no limit
    std::string policy;
    std::vector<double> first_s;     // one a repetition
    std::vector<double> eviction_s;  // of these: evidence, plan and compaction
    std::vector<double> token_s;
    size_t kv_peak_bytes = 0;
    size_t kv_bytes = 0;       // at the end
    size_t compute_bytes = 0;  // evidence and activations, at their most
    std::string note;          // why it could not be measured; empty: it was
};

// The full cache stands once for each length and chunk.
Result<std::vector<PolicySpeed>> measure_policy_speed(const Model & model, const PolicySpeedOptions & options);

}  // namespace pith
