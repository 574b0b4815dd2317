// plan_there.h - what evictions that are due keep, where lanes lie in a device's memory: of all sequences at once, layer by
// layer. Stage: engine.
//
// What is observed of a layer is one graph for all of them, whose results come in one piece; while the device computes it, this
// machine takes in the layer before, and scores those that have come, sequences or else layers side by side. Plans are those
// that each sequence would have made by itself.
#pragma once

#include <span>
#include <vector>

#include "engine/pass/live_session.h"

namespace pith {

// Whether anything of it would be done there.
bool observes_there(const LiveSession & session);

// Plans of the evictions that come next of each, by the lanes as they stand. REQUIRES: they share an execution;
// observes_there() of each, and what is read again for them has been. Errors, of each by itself: those of evict_all().
std::vector<Result<std::vector<LayerPlan>>> plan_there(std::span<LiveSession * const> sessions);

// The same, for evict_all() of each (LiveSession::planned): what fails here is left to it.
void plan_together(std::span<LiveSession * const> sessions) noexcept;

}  // namespace pith
