// score_report.h - scores of predictions made elsewhere, as a table or as JSON. Stage: eval.
// Pure.   Scores are times 100; intervals are those of interval.h.
#pragma once

#include <string>
#include <vector>

#include "eval/score_predictions.h"
#include "figures/text_table.h"

namespace pith {

// A row for each of `rows`, and behind them the average over tasks wherever it means something: two tasks or more, none of them
// twice, of one folder, under one length, policy and budget.
TextTable score_table(const std::vector<ScoredPredictions> & rows);
// {"rows": [{file, family, task, metric, score, interval, samples}], "averages": [{score, interval, tasks}]}
std::string score_json(const std::vector<ScoredPredictions> & rows);
// A line each: {file, family, task, length, policy, budget, sample, turn, score}, the score from 0 to 1 as in answers.jsonl;
// length, policy and budget of Pith's own form alone.
std::string score_lines(const std::vector<ScoredPredictions> & rows);

}  // namespace pith
