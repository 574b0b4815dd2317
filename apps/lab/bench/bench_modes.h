// bench_modes.h - what `pith bench` measures beside speed at given depths: a profile, gates, cases in turns, batches,
// crowds, and texts without end.
#pragma once

#include <cstdint>
#include <vector>

#include "common/bench/bench_flags.h"
#include "common/flags/engine_flags.h"
#include "engine/probe/bench.h"

namespace pith::app {

// --profile: where a token's time goes. Depth 0 stands for a prompt of n_prompt tokens. Returns the exit code.
int bench_profile(const ModelFlags & model, const BenchOptions & options, bool json);

// --gates: what gates cost prompts of these lengths, and what they save behind them. Returns the exit code.
int bench_gates(const ModelFlags & model, const BenchOptions & options, const std::vector<int> & lengths, bool json);

// --in-turns: the time of a decoded token over depths and budgets. Returns the exit code.
enum class TurnsOutput {
    kTable,
    kJson,
    kPaced,  // a round for each line of standard input; its rows as lines: round, case, seconds a token, parted by tabs
};
int bench_in_turns(const ModelFlags & model, const BenchOptions & options, const std::vector<Budget> & budgets,
                   TurnsOutput output);

// --batch: sequences that decode together, so many at a time, beside llama-batched-bench. Returns the exit code.
int bench_batch(const BenchOptions & options, const BatchFlags & flags, bool with_llama, bool json);

// --crowd: so many chats that live in one process, behind a prefix that all share. Returns the exit code.
int bench_crowd(const ModelFlags & model, const BenchOptions & options, const CrowdFlags & flags, bool json);

// --endless: so many tokens through one session. Returns the exit code.
int bench_endless(const ModelFlags & model, const BenchOptions & options, int64_t n_tokens, bool json);

}  // namespace pith::app
