// bench_turns.h - the time of a decoded token over depths and budgets, all cases in turns. Stage: speed.
//
// For how time grows with what was seen and with what is kept. One session for each policy and budget; its prompt grows from
// depth to depth, with a snapshot at each. Then rounds: every case is restored and decodes n_generate tokens, evictions
// included, so that a machine's moods hit all of them alike.
// Errors: those of sessions.   Threads: one at a time.   Memory: the snapshots keep what their lanes hold.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "pith/model.h"
#include "pith/session.h"

namespace pith {

struct TurnsRow {
    int n_prompt = 0;  // of a prompt's row; 0: decoding behind `depth`
    int64_t depth = 0;
    std::string policy;
    std::string budget;           // empty: no limit
    double n_entries = 0;         // of a lane on average, where decoding starts
    std::vector<double> token_s;  // seconds a decoded (or prompt's) token, one a round
};

struct TurnsOptions {
    SessionOptions session;  // threads, types, schedule
    std::vector<PolicyChoice> policies = {"full"};
    std::vector<Budget> budgets;  // for the policies that evict
    std::vector<int64_t> depths;
    int n_generate = 128;
    int n_repetitions = 7;
    int n_prompt = 0;  // also the time of a prompt of so many tokens in a fresh session, a row for each policy (0: none)
    // Asked before each round; false ends the measurement.
    std::function<bool(int round)> next_round;
    uint32_t seed = 1;
    std::function<void(int round, const std::vector<TurnsRow> & rows)> round_done;  // all rows so far
    std::function<void(const std::string & what)> progress;
    const std::atomic<bool> * cancel = nullptr;
};

Result<std::vector<TurnsRow>> measure_turns(const Model & model, const TurnsOptions & options);

// y ≈ at_zero + slope · x by least squares; worst: the largest |y - fit| / fit. REQUIRES: two different x.
struct LinearFit {
    double at_zero = 0;
    double slope = 0;
    double worst = 0;
};
LinearFit fit_line(std::span<const double> x, std::span<const double> y);

}  // namespace pith
