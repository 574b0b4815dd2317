// bench_case.h - one measurement of one case, by Pith or by llama-bench. Stage: probe.
#pragma once

#include "engine/probe/bench.h"

namespace pith {

struct BenchCase {
    int64_t depth = 0;
    PolicyChoice policy;
    bool evicts = false;
};

// n_repetitions of the case in a child process.
Result<BenchMeasurement> measure_pith(const BenchOptions & options, const BenchCase & bench_case, int n_repetitions);

Result<BenchMeasurement> measure_llama(const BenchOptions & options, int64_t depth, int n_repetitions);

// In this process: what the child does.
Result<BenchMeasurement> measure_here(const BenchOptions & options, const BenchCase & bench_case, int n_repetitions);

}  // namespace pith
