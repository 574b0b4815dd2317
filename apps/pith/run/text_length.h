// text_length.h - how long a text may be: as --ctx-size allows, and as the model was trained on.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "pith/ledger.h"
#include "pith/model.h"
#include "pith/status.h"

namespace pith::app {

// kInvalidArgument where `what` ("the prompt") has more tokens than --ctx-size, 0 of which says nothing.
Status check_context_size(const std::string & what, int64_t n_tokens, int ctx_size);

// Tokens of an answer: --n-predict, where negative is until the model ends, and never past --ctx-size.
constexpr int64_t limit_of_answer(int64_t n_predict, int64_t n_tokens, int ctx_size) {
    if (ctx_size == 0) { return n_predict; }
    const int64_t room = std::max<int64_t>(0, ctx_size - n_tokens);
    return n_predict < 0 ? room : std::min(n_predict, room);
}

// Once in a process: a text is longer than what the model was trained on, and what was kept of it does not move together, as
// nothing of it is ever evicted, or as the user wants it to stay. ledger: of what has read it.
void warn_past_training(const Model & model, int64_t n_tokens, const Ledger & ledger, bool context_shift);

}  // namespace pith::app
