// run_tables.h - tables of one run or of several that belong together, for figures and spreadsheets. Stage: eval.
// Pure.
#pragma once

#include <string>
#include <vector>

#include "eval/report/eval_table.h"
#include "figures/text_table.h"

namespace pith {

struct RunTable {
    std::string label;  // what sets the run apart: "question known"
    EvalTable table;
};

// "question known", "question later"; empty where nothing is asked (perplexity).
std::string question_words(const RunInfo & info);
// The model's file without folders and ending; empty where the run does not say.
std::string model_name(const RunInfo & info);
// Each once, in the run's order.
std::vector<std::string> budgets_of(const RunInfo & info);
// "12 samples a task", "10 to 12 samples a task"; empty where nothing is answered.
std::string samples_text(const EvalTable & table, int length);

// The tables with what sets each apart as its label: the model, when the question is known, other settings that differ, and the
// folder's name where these do not do. REQUIRES: a folder for each table.
std::vector<RunTable> labelled(std::vector<EvalTable> tables, const std::vector<std::string> & folders);

// The rows of these policies alone. Errors: kInvalidArgument: a policy that the run does not have (names those that it has).
Result<EvalTable> only_policies(EvalTable table, const std::vector<std::string> & policies);

// eval_columns() of each, the label in front.
TextTable columns_of_runs(const std::vector<RunTable> & runs);

// A page of its own each, SVG; a panel for each run and length.
//   heat map  a row for each policy (best average first), a column for each task and the average, a panel for each budget
//   memory    average score against KV bytes held, with intervals; the full cache is a level line. Tokens a head where a run
//             does not know its bytes
// REQUIRES: scores, not perplexities, for the heat map.
std::string heat_map_svg(const std::vector<RunTable> & runs);
std::string memory_svg(const std::vector<RunTable> & runs);

}  // namespace pith
