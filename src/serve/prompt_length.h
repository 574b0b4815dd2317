// prompt_length.h - whether a prompt is over the context, found out before all of it is tokenised. Stage: serve.
//
// Tokenising takes tens of bytes of memory for each byte of text, and a text of megabytes is over most contexts. A text that
// may be (more than kUsualBytes for each token of the context) is counted piece by piece, and no further than that is known.
// The pieces' ends cost some tokens more than the whole text has: so many are not counted.
// Threads: const-safe.   Cost: of texts that fit, or nearly: nothing; of others one tokenisation of the context's length.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "pith/text.h"

namespace pith::serve {

// 0: the texts together may fit. Else how many tokens they have, as their beginning lets expect: more than the context.
int64_t tokens_over_context(const Tokenizer & tokenizer, std::span<const std::string_view> texts, int64_t n_context);

}  // namespace pith::serve
