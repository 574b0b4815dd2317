// sample_file.h - samples from a file: a benchmark's own, what `pith eval --write-samples` wrote, plain texts. Stage: eval.
// Pure: the file comes in as text.
//
// JSON lines (or one JSON list); what they are is seen from the first of them and from the file's name:
//   `turns`               what `pith eval --write-samples` writes (docs/evaluate-data.md)
//   a benchmark's file    named as `pith eval --data` reads it ("qasper.jsonl", "vt/validation.jsonl"), or any with `task`
//   `chapter` or `text`   a text each, of which nothing is asked: a sample with one empty turn
// Without a file: samples that the task makes itself, to a length.
// Errors:  kBadFile: records.h's, and those of tasks; kInvalidArgument: no task, several, or one that is not of this file.
// Threads: const-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "benchmarks/benchmark.h"

namespace pith {

struct SampleFileRequest {
    std::string name;               // of the file, as the user knows it; empty: there is none
    std::string text;               // of the file
    std::string task;               // "longbench/qasper", or "qasper" where one family alone has it; empty: by the file
    int n_samples = 0;              // the first so many; 0: all (without a file: 1)
    int n_tokens = 0;               // of samples that the task makes itself, answer included; 0: none are made
    int n_overhead = 0;             // of the length that was asked for, what a chat template takes besides
    uint64_t seed = 1;              // of the same
    benchmarks::CountTokens count;  // REQUIRES: set when n_tokens is
};

struct FileSample {
    benchmarks::Sample sample;
    std::string family;  // of --write-samples, which says these; empty: another file
    std::string name;    // of the task
    int length = 0;
    const benchmarks::Task * task = nullptr;  // nullptr: a plain text, or a task that this Pith does not know
};

// Errors: besides those above kBudget where the task makes none so short: "task 'vt' needs at least …".
Result<std::vector<FileSample>> read_samples(const SampleFileRequest & request);

}  // namespace pith
