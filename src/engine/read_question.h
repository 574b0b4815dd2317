// read_question.h - a question is read behind what a session that keeps what it evicts holds, and what it looks for comes back.
// Stage: engine.
#pragma once

#include <cstdint>
#include <span>

#include "pith/session.h"

namespace pith {

// By RunHooks::repair where the session looks back, else by repair() and then prefill(). Errors: theirs; after one of prefill()
// what came back has come back: a snapshot is the way to what was before.
inline Status read_question(Session & session, std::span<const int32_t> question, RunHooks hooks) {
    hooks.repair = session.looks_back();
    if (!hooks.repair) { PITH_RETURN_IF_ERROR(session.repair(question, /*brings_back=*/true, hooks.cancel)); }
    return session.prefill(question, hooks);
}

}  // namespace pith
