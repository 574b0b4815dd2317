// bench_endless.h - a text without end through one session inside its budget: whether tokens become slower, or anything grows.
// Stage: speed.
//
// Random tokens come in calls of a chunk each, and then one by one, as decoded ones do. The last of both parts are measured in
// turns with a fresh session, whose budget has just become full, so that a machine's moods hit both: a stretch of a chunk's
// tokens here, one there, evictions included.
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

struct EndlessOptions {
    SessionOptions session;  // threads, types, budget, chunk
    std::vector<PolicyChoice> policies;
    int64_t n_tokens = 1000000;
    int n_generate = 100000;     // of these: the last, one by one
    int64_t n_compared = 10000;  // the last of each part that are measured in turns; fewer in short parts
    int n_repetitions = 1;
    uint32_t seed = 1;
    std::function<void(const std::string & what)> progress;
    const std::atomic<bool> * cancel = nullptr;
};

struct EndlessPart {
    int64_t n_tokens = 0;
    double fresh_tps = 0;              // median of the fresh session's stretches
    double last_tps = 0;               // of the long one's last
    double ratio = 0;                  // of speeds, median over the pairs of last / fresh: above 1 it is not slower
    double all_tps = 0;                // of all the long one's tokens, not a median
    size_t anonymous_first_bytes = 0;  // of the process, once the first stretches had been read
    size_t anonymous_last_bytes = 0;   // and before the fresh session came
};

struct EndlessReport {
    EndlessPart chunks;
    EndlessPart single;  // n_tokens 0: none was asked for
    Ledger ledger;
};

Result<EndlessReport> measure_endless(const Model & model, const EndlessOptions & options);

}  // namespace pith
