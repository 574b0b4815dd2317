// cancel.cpp - flags that end long calls, from C. Stage: façade.
#include "c/handles.h"

using pith::Status;
using namespace pith::c;

namespace {

// NULL: one that nobody can set.
std::shared_ptr<CancelFlag> flag_of(const pith_cancel * cancel) {
    return cancel == nullptr ? std::make_shared<CancelFlag>() : cancel->flag;
}

}  // namespace

pith_code pith_cancel_new(pith_cancel ** cancel) {
    return guarded([&]() -> Status {
        if (cancel == nullptr) { return missing("cancel"); }
        *cancel = nullptr;
        *cancel = new pith_cancel{std::make_shared<CancelFlag>()};
        return {};
    });
}

void pith_cancel_free(pith_cancel * cancel) {
    delete cancel;
}

void pith_cancel_set(pith_cancel * cancel) {
    if (cancel != nullptr) { cancel->flag->set(); }
}

void pith_cancel_clear(pith_cancel * cancel) {
    if (cancel != nullptr) { cancel->flag->clear(); }
}

pith_code pith_session_cancel_by(pith_session * session, pith_cancel * cancel) {
    return from_hooks_too(session, [&]() -> Status {
        if (session == nullptr) { return missing("session"); }
        session->cancel = flag_of(cancel);
        return {};
    });
}

pith_code pith_engine_cancel_by(pith_engine * engine, pith_cancel * cancel) {
    return from_hooks_too(engine, [&]() -> Status {
        if (engine == nullptr) { return missing("engine"); }
        engine->cancel = flag_of(cancel);
        return {};
    });
}
