// bench_batch.h - tokens per second of sequences that decode together, by their number, beside llama-batched-bench on the same
// file, threads and depths. Stage: speed.
//
// Each measurement is a process of its own: a prompt of `depth` random tokens is read once and kept, as many requests as a
// batch has go on from it, and once all of them answer, n_generate steps are timed, sampling left out; an eviction is among
// them only where n_generate passes the engine's grid. What the policy keeps of the prompt all requests read where it lies;
// with `own` the prompt is kept in full, and each request evicts for itself and reads a copy of its own, as users with prompts
// of their own do. llama-batched-bench shares its prompt too (-pps), and evicts nothing; of its runs with flash attention and
// without the faster one counts, batch by batch. Measurements alternate (Pith, llama.cpp, Pith, …), so that a machine's moods
// hit both; medians are reported, and medians of the pairs' ratios.
// REQUIRES: no model was loaded in this process before (it forks).   Threads: one at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "engine/probe/bench.h"

namespace pith {

struct BatchBenchOptions {
    std::string model_path;
    ModelOptions model;
    SessionOptions session;  // threads, types, budget, schedule; the policy comes from `policies`
    std::vector<PolicyChoice> policies = {"full"};
    std::vector<int64_t> depths = {0};
    std::vector<int> batches = {1, 2, 4, 8, 16, 32};
    bool own = false;  // each sequence evicts for itself, and holds what it keeps alone
    int n_generate = 32;
    int n_repetitions = 3;
    uint32_t seed = 1;
    LlamaBench llama;  // how to start llama-batched-bench
    std::function<void(const std::string & what)> progress;
};

struct BatchRow {
    int64_t depth = 0;
    std::string policy;
    std::string budget;  // empty: no limit
    int batch = 0;
    std::vector<double> tps;             // tokens a second of all sequences together, one a repetition
    std::vector<double> llama_tps;       // empty: it was not run
    double ratio = 0;                    // median over pairs of Pith / llama.cpp; 0: none
    std::vector<double> prompt_tps;      // of the model alone, a prompt of 512 tokens
    std::vector<double> schedule_share;  // of a step's time: choosing who runs, and bookkeeping
    size_t kv_bytes = 0;                 // of all sequences, at the end; each page once
};

Result<std::vector<BatchRow>> run_batch_bench(const BatchBenchOptions & options);

}  // namespace pith
