// session_ledger.h - what a session has cost, counted anew from its lanes, evidence and graphs. Stage: engine.
#pragma once

#include "engine/pass/live_session.h"

namespace pith {

void update_ledger(LiveSession & session);
// Gives back what a prompt holds of devices: its hidden states, and its graphs, unless tokens go layer by layer, too, whose
// graphs grow with every token, and what a prompt has left them is large enough.
void release_graphs(LiveSession & session);
// How much may stay, as its plan has it now.
void tell_budget(LiveSession & session) noexcept;
// Of evidence alone, while a call is open: what it would go back to is part of it.
void see_evidence_peak(LiveSession & session);
// before: of a call that has failed. What it took and took up stays in the ledger, what it did to the sequence does not.
void forget_call(LiveSession & session, Ledger before) noexcept;

}  // namespace pith
