// draft_behind.h - what may come behind the token of the call at hand, to run ahead in its pass. Stage: engine.
#pragma once

#include <cstdint>
#include <span>

#include "engine/pass/live_session.h"

namespace pith {

// The draft: at most `most` tokens, none where the session's options want none, where what it holds does not let rows run ahead
// (can_run_ahead()), or where a pass with them would win nothing. So few that nothing is evicted or moves before all of them
// could be fed. n_others: rows of others in the pass.
// REQUIRES: begin_call() of a single token behind others, its row not there yet or taken next; once for each such call.
std::span<const int32_t> draft_behind(LiveSession & session, int64_t most, int n_others);

}  // namespace pith
