// make_session.h - a session of a model, before anything is read. Stage: set-up.
#pragma once

#include <memory>
#include <optional>

#include "engine/pass/live_session.h"
#include "pith/model.h"

namespace pith {

// A session that runs on these threads; nullptr: on its own. known: where its importances were found, before it was saved; none
// are looked for then. Errors: those of Model::session(). Throws std::bad_alloc.
Result<std::unique_ptr<LiveSession>> make_session(const Model & model, const SessionOptions & options,
                                                  const std::shared_ptr<Execution> & execution,
                                                  std::optional<KnownHeads> known = std::nullopt);

// SessionOptions::draft_ngram. Errors: kInvalidArgument.
Status check_draft(int most);
inline constexpr int kMostRepairEvery = 64;
// SessionOptions::repair_every. Errors: kInvalidArgument.
Status check_repair_every(int n_tokens);

}  // namespace pith
