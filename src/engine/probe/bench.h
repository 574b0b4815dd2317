// bench.h - speed and memory at given depths, beside llama-bench on the same file, threads and depths. Stage: probe.
//
// One measurement of a case, in a process of its own: load, warm up, prefill `depth` random tokens (compressed as the policy
// says), then time a prompt of n_prompt tokens and, cut back to the depth, n_generate decoded tokens. Pairs are interleaved
// (Pith, llama-bench, Pith, …), so that a machine's moods hit both; medians and medians of the pairs' ratios are reported.
// llama-bench runs with flash attention and without: the faster one counts, for prompts and for generation by itself.
// Of lists every combination is a case, as in llama-bench; there are so many rows.
// REQUIRES: no model was loaded in this process before (run_bench forks).   Threads: one at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "pith/ledger.h"
#include "pith/model.h"
#include "pith/session.h"

namespace pith {

// How to start llama-bench; empty command: there is none.
struct LlamaBench {
    std::vector<std::string> command;
    std::string working_folder;  // where it finds its back ends
};

// Values to measure one after the other; an empty list: the one that the options have.
struct BenchLists {
    std::vector<int> prompts;
    std::vector<int> generates;
    std::vector<int> threads;
    std::vector<KvType> types_k;
    std::vector<KvType> types_v;
    std::vector<int> chunks;
    std::vector<Budget> budgets;
};

struct BenchOptions {
    std::string model_path;
    ModelOptions model;
    SessionOptions session;  // threads, types, budget, schedule; the policy comes from `policies`
    std::vector<PolicyChoice> policies = {"full"};
    std::vector<int64_t> depths = {0};
    int n_prompt = 512;
    int n_generate = 32;
    BenchLists lists;
    int n_repetitions = 5;
    bool interleave = true;  // false: all repetitions of a case in one process, after one prefill of the depth
    uint32_t seed = 1;
    LlamaBench llama;
    std::function<void(const std::string & what)> progress;
};

struct BenchMeasurement {
    std::vector<double> prefill_tps;  // of n_prompt tokens at the depth, one a repetition
    std::vector<double> decode_tps;
    size_t rss_peak_bytes = 0;
    size_t rss_anonymous_before_bytes = 0;  // after the warm-up, before the prompt; the ledger has it after the run
    Ledger ledger;                          // of the session that decoded
    // Of the longest prefill (the depth, or the prompt at depth 0): where its time went.
    double prefill_s = 0;
    double evidence_s = 0;
    double plan_s = 0;
    double compact_s = 0;
};

struct BenchRow {
    int64_t depth = 0;
    int n_prompt = 0;
    int n_generate = 0;
    int n_threads = 0;  // 0: the default
    KvType type_k = KvType::kF16;
    KvType type_v = KvType::kF16;
    int chunk = 0;
    std::string policy;
    std::string budget;  // empty: no limit
    BenchMeasurement pith;
    BenchMeasurement llama;    // no samples where llama-bench was not run
    double prefill_ratio = 0;  // median over pairs of Pith / llama.cpp; 0: none
    double decode_ratio = 0;
    double scoring_share = 0;  // median of (evidence + plan + compaction) / prefill
    std::vector<double> scoring_shares;
};

Result<std::vector<BenchRow>> run_bench(const BenchOptions & options);

}  // namespace pith
