// score_predictions.h - predictions that were made elsewhere, scored by their task's own metric. Stage: eval.
// Pure: files come in as text.
//
// A file holds one prediction a line (or one JSON list of them), in the shapes that benchmarks publish:
//
//   InfiniteBench   id, prediction or pred, ground_truth or label
//   LongBench       pred, answers[], all_classes          LongBench v2   _id, response, answer
//   RULER           index, pred, outputs[]                BABILong       output, target, question
//   SCBench         id, turn_idx, prediction, ground_truth
//   Pith            answers.jsonl of a run's folder: task, length, sample, turn, policy, budget, prediction, references[]
//
// What is not named here is not read. A sample's score is the mean of its turns', a file's the mean of its samples'. What a
// metric needs and a line lacks (references, classes, the choices of multiple choice) comes from the benchmark's own data file,
// by the sample's id, or by the line's number where it has none.
// Errors:   kBadFile: one line that names file, line and field: records.h's; a line without a prediction; an id that comes
// twice.
//           kInvalidArgument: no task, or several, by the names that the lines and the file have.
//           Those of `data`.
// Threads:  const-safe.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "benchmarks/benchmark.h"
#include "core/interval.h"

namespace pith {

struct PredictionFile {
    std::string name;  // as the user knows it: messages have it, and the task's name may be in it
    std::string text;
    std::string family;                       // narrows down what a task's name may mean; empty: all
    const benchmarks::Task * task = nullptr;  // nullptr: by the lines' `task` or `dataset`, else by the file's name
};

struct ScoredAnswer {
    std::string sample;  // its id, or the line's number
    int64_t turn = 0;
    double score = 0;  // 0 … 1
};

// One task of one file; of Pith's own answers, under one length, policy and budget.
struct ScoredPredictions {
    std::string file;
    const benchmarks::Task * task = nullptr;
    int length = 0;
    std::string policy, budget;  // empty: not Pith's
    int n_samples = 0;
    int n_refused = 0;                  // of Pith's own: samples without an answer
    std::optional<Estimate> score;      // 0 … 1; nothing where all were refused
    std::vector<ScoredAnswer> answers;  // in the file's order
};

// Text of a benchmark's data file, by TaskRules::file; asked for at most once a task and file of predictions.
using ReadDataFile = std::function<Result<std::string>(const std::string & file)>;

// In the order of task, length, policy (the full cache first) and budget.
Result<std::vector<ScoredPredictions>> score_predictions(const PredictionFile & file, const ReadDataFile & data);

// "infinitebench/passkey", or "passkey" where one family alone has it.   Errors: kInvalidArgument: none, or several.
Result<const benchmarks::Task *> task_by_name(std::string_view name, std::string_view family = "");

}  // namespace pith
