// importance_texts.h - what the prediction of importance is learnt from: pieces of the user's texts, or generated ones.
// Stage: probe.   Threads: as the tokeniser.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pith/text.h"

namespace pith {

struct ImportanceTextOptions {
    int n_texts = 24;      // at most
    int n_tokens = 1024;   // of each, its begin token included
    uint64_t seed = 7919;  // of generated ones; not the benchmarks' seed
};

// Pieces of so many tokens, evenly spread over all of the texts; of a text that is shorter, all of it.
// Errors: kInvalidArgument: under two pieces of kShortestImportanceText tokens; those of the tokeniser.
inline constexpr int kShortestImportanceText = 128;
Result<std::vector<std::vector<int32_t>>> pieces_of_texts(const Tokenizer & tokenizer, const std::vector<std::string> & texts,
                                                          const ImportanceTextOptions & options);

// Generated: facts hidden in noise and in stories, and questions about them.
// Errors: kInvalidArgument: too short for the model's tokeniser.
Result<std::vector<std::vector<int32_t>>> generated_texts(const Tokenizer & tokenizer, const ImportanceTextOptions & options);

}  // namespace pith
