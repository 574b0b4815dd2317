// sample_table.h - the score of every sample under every policy and budget, so that any pair can be tested later. Stage: eval.
// Pure: the same run and answers give the same bytes.
#pragma once

#include <string>
#include <vector>

#include "eval/run_folder.h"

namespace pith {

// A line for each task, length and sample, by its id; a column for each case: 0 … 1, of several turns their mean (perplexity:
// as it is). Empty where there is no answer.
std::string sample_csv(const RunInfo & info, const std::vector<Answer> & answers);

}  // namespace pith
