// plain_text.h - text that stands for itself as tokens: its beginning, and held-out text of the built-in generator. Stage:
// eval.
#pragma once

#include <cstdint>
#include <vector>

#include "pith/text.h"

namespace pith {

// What the tokeniser puts in front of a text: the begin token, or nothing, also where the vocabulary has such a token.
Result<std::vector<int32_t>> tokens_before_text(const Tokenizer & tokenizer);

// Exactly n tokens, those before the text included. Deterministic in seed and index.
Result<std::vector<int32_t>> make_plain_tokens(const Tokenizer & tokenizer, uint64_t seed, int index, int n);

}  // namespace pith
