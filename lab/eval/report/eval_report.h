// eval_report.h - an evaluation's table for people, spreadsheets, programs and pages. Stage: eval.
// Pure: no times, no paths; the same table gives the same bytes.
#pragma once

#include <string>

#include "eval/report/eval_table.h"
#include "figures/text_table.h"

namespace pith {

// One block for each length: a row for each policy and budget. Several tasks: a column for each, and their average;
// details: one more block for each task, with intervals, differences and groups.
std::string eval_text(const EvalTable & table, bool details);
std::string eval_markdown(const EvalTable & table);
// A line for each task (and `average`), length, policy, budget and group.
std::string eval_csv(const EvalTable & table);
TextTable eval_columns(const EvalTable & table);  // the same, as a table
std::string eval_json(const EvalTable & table);

// Score against budget for each length (and task); length × depth where a task has depths; layer × KV head of what is kept,
// for policies whose lanes differ.
//   only   names of figures: a task, "average", "depths", "heads"; empty: all of them
std::string eval_svg(const EvalTable & table, const std::vector<Answer> & answers, const std::vector<std::string> & only = {});
// The names that `only` may have for this table.
std::vector<std::string> figure_names(const EvalTable & table);

}  // namespace pith
