// compare_runs.h - two evaluations of the same samples, pair by pair. Stage: eval.
//
// For each task, length, policy and budget that both have: mean difference (second minus first) over the samples both
// answered, its 95 % interval (interval.h), the p-value of significance.h, and Holm's adjustment over all rows of the table.
// Over several tasks: the mean of the tasks' differences, tested by permutation within tasks. Samples are the same when task,
// length and id are: the caller sees to it that their settings are (differing_settings). Threads: const-safe.
#pragma once

#include <optional>
#include <string>
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
    std::optional<Interval> interval;  // a perplexity's: of two pairs or more
    double p = 1;
    double p_holm = 1;
    std::string test;
};

struct Comparison {
    std::vector<CompareRow> rows;
    bool is_perplexity = false;
};

// Policies (of all budgets) to hold against each other; both empty: each policy with itself.
struct ComparePolicies {
    std::string first, second;
};

// tasks: to compare and to average over; empty: all that both have.
// Errors: kInvalidArgument: nothing that both runs have; a task that they do not both have; another kind of score.
Result<Comparison> compare_runs(const RunFolder & first, const RunFolder & second, const ComparePolicies & policies = {},
                                const std::vector<std::string> & tasks = {});

// Settings that decide which samples there are, and that differ: "--seed 1 and 2".
std::string differing_samples(const RunInfo & first, const RunInfo & second);

std::string compare_text(const Comparison & comparison, bool markdown);
std::string compare_csv(const Comparison & comparison);
std::string compare_json(const Comparison & comparison);

}  // namespace pith
