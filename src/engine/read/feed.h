// feed.h - a call from its first check to its commit: the plan, the tokens through the layers, the logits. Stage: engine.
//
// A call is a transaction: begin_call(), its tokens (read_chunks.h, read_one_shot.h), end_call(). After an error the session
// is, bit for bit, as before; the ledger's times and peaks alone go on.
#pragma once

#include <cstdint>
#include <span>

#include "engine/pass/live_session.h"

namespace pith {

// Session::prefill(); tokens that are no prompt are no gate's business.
Status feed(LiveSession & session, std::span<const int32_t> tokens, bool is_prompt, const RunHooks & hooks);
// Session::prefill_for_questions().
Result<bool> feed_for(LiveSession & session, std::span<const int32_t> tokens, std::span<const int32_t> questions,
                      const RunHooks & hooks);

// Opens the transaction, and settles what the tokens need: for a first prompt all that is decided when it is known.
// keeps_whole_way_back: the tokens go through a pass that tells evidence before it may fail.
// Whatever it returns or throws, end_call() follows.   REQUIRES: check_tokens().
Status begin_call(LiveSession & session, std::span<const int32_t> tokens, bool is_prompt, const RunHooks & hooks,
                  bool keeps_whole_way_back = false);
// Commits, or takes all back.
void end_call(LiveSession & session, const Status & status) noexcept;
// The prompt that questions observed has been read. Whether it was in their sight.
bool end_observing(LiveSession & session);

}  // namespace pith
