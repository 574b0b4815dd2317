// question_prefill.h - reads a prompt for questions that will be asked of it later, each by itself. Stage: engine.
//
// The questions run one after the other behind the prompt, or behind every chunk of it, as observers: what is kept is chosen in
// the sight of all of them, and they are taken back. The session then holds the prompt alone, within its whole budget, as if
// the questions had never been there; ask one, come back to a snapshot, ask the next.
//
// A policy that looks at the last queries looks at all the questions' tokens (at more, where its window is longer); one that
// looks at the last query alone (tova) at the mean over all of them. A question sees those in front of it: reading each
// behind the prompt alone would take a run, and evidence, for each.
#pragma once

#include <cstdint>
#include <span>

#include "pith/session.h"

namespace pith {

// As Session::prefill() of the tokens, on an empty session. The questions are out of sight, and what is kept is what prefill()
// keeps, where nothing is evicted; where the policy needs the model's gates, which decide before they could look; and where the
// prompt is read in chunks and they are longer than a chunk. seen: whether they were in sight.
// Errors: as Session::prefill(); kInvalidArgument: no questions, a session that holds tokens, n_question not 0.
// Cost: the questions' tokens once more; in chunks, with every chunk.
Status prefill_for_questions(Session & session, std::span<const int32_t> tokens, std::span<const int32_t> questions,
                             const RunHooks & hooks, bool & seen);

}  // namespace pith
