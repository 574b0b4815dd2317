// sample_prompt.h - a benchmark's sample as tokens, with the borders known that compression cares about. Stage: eval.
//
//   [begin, template] context | question [template] | answer prefix | … answer …        one turn
//   [begin, template] context | question answer prefix [template] | … answer …          the same, prefix_asked
//   … | gold answer [template] question [template] | answer prefix | … answer …          a later turn of a dialogue
//
// Each whole prompt is tokenised in one piece; a border is where the tokens of the text up to it stop being the beginning of
// the whole's. So nothing depends on where the sample is cut.
// Threads: const-safe.   Cost: a few tokenisations of the context for each turn.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "benchmarks/benchmark.h"
#include "pith/text.h"

namespace pith {

struct PromptRules {
    bool chat = false;          // within the model's chat template
    bool prefix_asked = false;  // the answer prefix ends the question (TaskRules::prefix_asked)
    benchmarks::TooLong too_long = benchmarks::TooLong::kRefuse;
    int n_middle = 0;  // kMiddle: context + question + prefix hold so many tokens at most; 0: as many as the model takes
    int n_ctx = 0;     // tokens the model takes, answer included; 0: unknown
};

struct TurnTokens {
    std::vector<int32_t> question;              // and what the template puts after it
    std::vector<int32_t> prefix;                // of the answer
    std::vector<std::vector<int32_t>> choices;  // after the prefix
    std::vector<int32_t> follow_up;             // the gold answer and what the template puts after it; for a later turn
};

struct SampleTokens {
    std::vector<int32_t> context;  // of all turns
    std::vector<TurnTokens> turns;
    bool dialogue = false;  // later turns follow the earlier ones; else each follows the context
    int n_cut = 0;          // tokens that were taken out of the middle
    std::string too_long;   // why it cannot be asked; empty: it can
};

// Errors: kInvalidArgument: text that is not UTF-8, a prompt without tokens.
Result<SampleTokens> tokenise_sample(const Tokenizer & tokenizer, const benchmarks::Sample & sample, const PromptRules & rules);

// Tokens that the template and the begin token take away from a prompt's limit.
Result<int> prompt_overhead(const Tokenizer & tokenizer, bool chat);

}  // namespace pith
