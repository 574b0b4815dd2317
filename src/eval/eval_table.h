// eval_table.h - what an evaluation's answers amount to: a row for each task, length, policy and budget. Stage: eval.
// Pure: the same run and answers give the same table, whatever the order the answers came in.
//
//   score        mean over samples (a sample of several turns: mean over its turns), times 100; perplexity: mean over documents
//   interval     95 %: Wilson's where every sample is right or wrong, else bootstrap over samples
//   difference   to the full cache, over the samples that both answered; interval: bootstrap over these pairs
//   average      of the tasks' scores, unweighted, where all of them have one; interval: normal, from the tasks' variances
// Threads: const-safe.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "eval/interval.h"
#include "eval/run_folder.h"

namespace pith {

struct EvalRow {
    std::string task;  // empty: the average of all tasks
    int length = 0;
    size_t index = 0;          // of the case in RunInfo::cases
    std::string group, value;  // "depth", "25"; empty: all samples
    int n_samples = 0;         // that have an answer
    int n_refused = 0;         // whose budget cannot hold what the policy protects
    std::optional<double> score;
    std::optional<Interval> interval;  // nothing where there is one sample that is neither right nor wrong
    std::optional<double> difference;
    std::optional<Interval> difference_interval;  // of two pairs or more
    std::optional<double> per_character;          // multiple choice: likelihoods divided by characters
    double kept = 0;                              // entries a lane, mean
    double n_prompt = 0;                          // tokens, mean
    std::string note;                             // why samples were refused
};

struct EvalSkips {
    std::string task;
    int length = 0;
    int n_left_out = 0;  // longer than the model takes
    int n_cut = 0;       // whose middle was taken out
};

struct EvalTable {
    RunInfo info;
    std::vector<EvalRow> rows;     // lengths, tasks, cases, groups in the run's order; averages behind the last task
    std::vector<EvalSkips> skips;  // where there were any
    bool is_perplexity = false;

    const EvalRow * find(const std::string & task, int length, size_t index) const;  // all samples
};

EvalTable make_eval_table(const RunInfo & info, const std::vector<Answer> & answers);

// The score of every sample of a task, length and case, by the sample's index.
std::vector<std::pair<int, double>> sample_scores(const std::vector<Answer> & answers, const std::string & task, int length,
                                                  const EvalCase & one);

// Mean of the strata's means, and its 95 % interval: mean ± 1.96·√(Σ s²/n)/T.
struct StratifiedMean {
    double mean = 0;
    std::optional<Interval> interval;  // nothing where a stratum has a single value: its variance is unknown
};
StratifiedMean stratified_mean(const std::vector<std::vector<double>> & strata);

}  // namespace pith
