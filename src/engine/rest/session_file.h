// session_file.h - a session to a file, and what comes back. Stage: engine.
#pragma once

#include <memory>
#include <string>

#include "engine/pass/live_session.h"

namespace pith {

// Session::save().
Status save_session(const LiveSession & session, const std::string & path, const CacheNotes & notes);
// What was saved there, under the settings of `like` and on its threads. Errors: those of Session::load().
Result<std::unique_ptr<LiveSession>> load_session(const LiveSession & like, const std::string & path);

}  // namespace pith
