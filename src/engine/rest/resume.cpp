// resume.cpp - the sequence, and what the ledger says of it.
#include "engine/rest/resume.h"

#include <utility>

#include "engine/pass/session_ledger.h"
#include "engine/settle/auto.h"

namespace pith {

void resume(LiveSession & session, SequenceAtRest from) {
    PolicyNames names = policy_names(from.state);
    if (session.gates) { session.gates->forget_answers(session.n_layers()); }
    session.ledger.n_evictions = from.n_evictions;
    session.ledger.evicted_entries = from.evicted_entries;
    session.seq.become(std::move(from));
    tell_budget(session);
    tell_policy(std::move(names), session.ledger);
    update_ledger(session);
}

}  // namespace pith
