// kept_prefill.h - prompts that were read before, from a folder of saved sessions. Stage: eval.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "pith/model.h"
#include "pith/session.h"

namespace pith {

// session.prefill(prompt, hooks), and its file in the folder; or what such a file holds, when the same model has read the same
// under the same settings before: what follows is the same, bit for bit. A file that is damaged or of another version is made
// anew; one that cannot be written is a line in the log, and no more. folder: it exists; empty: the prompt is read.
// options: of the session. REQUIRES: the session is empty, and hooks ask for no logits.   Errors: those of prefill().
// Cost: a file is as large as the session's cache.   Threads: sessions of one model and folder may come here side by side.
Status prefill_or_open(const Model & model, Session & session, const SessionOptions & options, std::span<const int32_t> prompt,
                       const RunHooks & hooks, const std::string & folder);

}  // namespace pith
