// plain_text.h - held-out text of the built-in generator as tokens. Stage: eval.
#pragma once

#include <cstdint>
#include <vector>

#include "pith/text.h"

namespace pith {

// Exactly n tokens, the begin token (where the model has one) included. Deterministic in seed and index.
Result<std::vector<int32_t>> make_plain_tokens(const Tokenizer & tokenizer, uint64_t seed, int index, int n);

}  // namespace pith
