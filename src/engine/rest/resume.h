// resume.h - a session goes on from a sequence at rest, wherever that lay. Stage: engine.
#pragma once

#include "engine/pass/live_session.h"

namespace pith {

// All of it or, on std::bad_alloc, nothing; the ledger counts evictions as the sequence does. REQUIRES: it has a plan and
// lanes; no call of the session is open.
void resume(LiveSession & session, SequenceAtRest from);

}  // namespace pith
