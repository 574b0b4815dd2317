// eval_table.h - what an evaluation's answers amount to: a row for each task, length, policy and budget. Stage: eval.
// Pure: the same run and answers give the same table, whatever the order the answers came in.
//
//   score        mean over samples (a sample of several turns: mean over its turns), times 100; perplexity: mean over documents
//   interval     95 %, of interval.h: within 0 … 100 and never a point; a perplexity's is a bootstrap over documents
//   difference   to the full cache, over the samples that both answered, with the interval and p of one paired test
//                (statistics/significance.h); of an average over the pairs of all tasks, each task a stratum
//   average      of the tasks' scores, unweighted, where all that fit the length have one; its interval is made of theirs
// Threads: const-safe.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/interval.h"
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
    std::optional<Interval> interval;  // a perplexity's: of two documents or more
    std::optional<double> difference;
    std::optional<Interval> difference_interval;  // a perplexity's: of six pairs or more
    std::optional<double> p;                      // two-sided, below 0.05 exactly where that interval leaves out 0
    std::vector<double> blocks;                   // perplexity: of the documents' blocks (Answer::kBlock), geometric means
    std::optional<double> per_character;          // multiple choice: likelihoods divided by characters
    double kept = 0;                              // entries a lane, mean
    double n_prompt = 0;                          // tokens, mean
    std::optional<double> kv_bytes;               // of KV cache held, mean; nothing where an answer does not say
    std::string chosen;                           // what `auto` became, joined by ','; empty: the policy was named
    std::string note;                             // why samples were refused
    std::string no_choice;                        // why the policy had nothing to choose (Policy::why_no_choice); empty: it had
};

struct EvalSkips {
    std::string task;
    int length = 0;
    int n_left_out = 0;  // longer than the model takes
    int n_cut = 0;       // whose middle was taken out
    std::string why;     // the whole task is left out: none of its samples is short enough
};

struct EvalTable {
    RunInfo info;
    std::vector<EvalRow> rows;     // lengths, tasks, cases, groups in the run's order; averages behind the last task
    std::vector<EvalSkips> skips;  // where there were any
    bool is_perplexity = false;

    const EvalRow * find(const std::string & task, int length, size_t index) const;  // all samples
};

EvalTable make_eval_table(const RunInfo & info, const std::vector<Answer> & answers);

// "512 tokens"; of length 0 "whole samples".
std::string length_text(int length);

// The score of every sample of a task, length and case, by the sample's index.
std::vector<std::pair<int, double>> sample_scores(const std::vector<Answer> & answers, const std::string & task, int length,
                                                  const EvalCase & one);

// And their ids, by index: of every sample that somebody was asked.
std::map<int, std::string> sample_ids(const std::vector<Answer> & answers, const std::string & task, int length);

// The paired test of differences of scores or perplexities, task by task, as tables show it: scores times 100.
struct PairedDifference {
    double difference = 0;
    std::optional<Interval> interval;  // scores: within -100 and 100; perplexities: nothing where so few pairs have no limit
    double p = 1;
    bool is_exact = true;
};
PairedDifference paired_difference(const std::vector<std::vector<double>> & tasks, bool is_perplexity);

}  // namespace pith
