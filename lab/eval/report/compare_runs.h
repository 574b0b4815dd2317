// compare_runs.h - two evaluations of the same samples, pair by pair. Stage: eval.
//
// For each task, length, policy and budget that both have: the paired test (statistics/significance.h) of second minus first
// over the samples both answered: difference, 95 % interval, p; and Holm's adjustment of p over all rows of the table. Over
// several tasks: the mean of the tasks' differences, each task a stratum. Samples are the same when task, length and id are:
// the caller sees to it that their settings are (differing_samples). Threads: const-safe.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "eval/report/eval_table.h"

namespace pith {

struct CompareRow {
    std::string task;  // empty: the average of all tasks
    int length = 0;
    EvalCase first, second;
    int n_samples = 0;  // pairs
    double first_score = 0, second_score = 0;
    double difference = 0;
    std::optional<Interval> interval;  // a perplexity's: of six pairs or more
    double p = 1;                      // below 0.05 exactly where the interval leaves out 0
    double p_holm = 1;
    bool is_exact = true;  // all sign patterns; else drawn ones
};

struct Comparison {
    std::vector<CompareRow> rows;
    bool is_perplexity = false;
};

// Policies (of all budgets) to hold against each other; both empty: each policy with itself.
struct ComparePolicies {
    std::string first, second;
};

// What of two runs is compared.
struct CompareWhat {
    std::vector<ComparePolicies> policies;  // none: each policy with itself. Pairs that the runs do not have are passed over
    std::vector<std::string> tasks;         // to compare and to average over; none: all that both have
    bool overall = false;                   // the rows over all tasks alone (of a single task, its own)
};

// Errors: kInvalidArgument: nothing that both runs have; a task that they do not both have; another kind of score.
Result<Comparison> compare_runs(const RunFolder & first, const RunFolder & second, const CompareWhat & what = {});

// Settings that decide which samples there are, and that differ: "--seed 1 and 2".
std::string differing_samples(const RunInfo & first, const RunInfo & second);

// What a study's policies are held against: "snapkv<criticalkv,adakv<critical-adakv", the better one, by the paper, last.
std::vector<ComparePolicies> parse_pairs(std::string_view pairs);

std::string compare_text(const Comparison & comparison, bool markdown);
std::string compare_csv(const Comparison & comparison);
std::string compare_json(const Comparison & comparison);

}  // namespace pith
