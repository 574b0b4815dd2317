// samples_as_json.h - an evaluation's samples as lines of JSON, the same for every benchmark (docs/evaluate-data.md). Stage:
// eval. Pure: the same samples give the same bytes.
#pragma once

#include <string>

#include "eval/evaluate.h"

namespace pith {

// The samples that would be asked, in their order; those that were left out are not among them.
std::string sample_lines(const EvalPlan & plan);
// The same with the tokens of their prompts, and with what ends an answer: for a program that has this model's weights but not
// its tokeniser or chat template (docs/evaluate-data.md).
std::string sample_lines_with_tokens(const EvalPlan & plan, const Tokenizer & tokenizer);

}  // namespace pith
