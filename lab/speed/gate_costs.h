// gate_costs.h - what gates cost a prompt, and what they save behind it. Stage: speed.
//
// For each length, in rounds of all policies so that a machine's moods hit all of them alike: a new session, one prompt of
// random tokens, then n_generate decoded tokens. `full` is what the others are compared with.
// Errors: kInvalidArgument (a length or a number below 1), those of sessions.   Threads: one at a time.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "pith/model.h"
#include "pith/session.h"

namespace pith {

struct GateCostOptions {
    SessionOptions session;  // threads, types, chunk, budget; the prompt is read one-shot unless it says chunked
    std::vector<PolicyChoice> policies = {"full", "gated"};
    std::vector<int> lengths = {2048, 8192};
    int n_generate = 64;
    int n_repetitions = 3;
    uint32_t seed = 1;
    std::function<void(const std::string & what)> progress;
    const std::atomic<bool> * cancel = nullptr;
};

struct GateCostRow {
    int n_tokens = 0;
    std::string policy;
    std::vector<double> prefill_s;  // one a round, as the next two
    std::vector<double> gate_s;     // of it: the gates' own work
    std::vector<double> token_s;    // seconds a decoded token
    double kept = 1;                // entries in the cache behind the prompt, over all there were
    size_t kv_allocated_bytes = 0;  // then
    size_t kv_peak_bytes = 0;
    size_t gate_peak_bytes = 0;

    double gate_share() const;  // of the prefill, median over the rounds
    // How many decoded tokens it takes until what each of them gains beside `full` has made up for the longer prefill, by
    // medians over the rounds. 0: the prefill is no longer; nothing: no token gains anything.
    std::optional<double> tokens_until_even(const GateCostRow & full) const;
};

// Lengths in the order given, policies within each.
Result<std::vector<GateCostRow>> measure_gate_costs(const Model & model, const GateCostOptions & options);

}  // namespace pith
