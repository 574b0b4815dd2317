// engine_options.h - an engine whose sequences are as a session's options want them. Stage: set-up.
#pragma once

#include "pith/batch_engine.h"

namespace pith {

// K/V types, their rotation, and threads, which are the engine's and not a request's; the rest is EngineOptions' own defaults.
inline EngineOptions engine_options(const SessionOptions & session) {
    EngineOptions options;
    options.type_k = session.type_k;
    options.type_v = session.type_v;
    options.rotate_kv = session.rotate_kv;
    options.n_threads = session.n_threads;
    return options;
}

}  // namespace pith
