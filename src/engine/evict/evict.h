// evict.h - one eviction, all its stages in order: evidence → score → refine → allocate → select → plan → compaction. Stage:
// engine.
//
// Layers are named as the model counts them.   Errors of all: kMissingEvidence, kOutOfMemory, kInternal, kCancelled; the lanes
// are then as before.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/pass/live_session.h"
#include "policy/eviction.h"

namespace pith {

// All layers at once: after a chunk, and in decode. is_last: nothing that follows in the call can fail.
Status evict_all(LiveSession & session, bool is_last);
// What the newest chunk keeps with the question behind it. The question's tokens run as queries and are taken back: what they
// added to lanes and evidence is gone when the plan is applied, whether or not anything failed.
Status evict_in_sight_of(LiveSession & session, std::span<const int32_t> question);

// Its parts, for whoever evicts layer by layer.
bool over_budget(const LiveSession & session);
EvictionTarget eviction_target(const LiveSession & session);
// What the session's evidence is made for: a policy's, and what evict() may ask for later.
std::vector<EvidenceNeeds> all_needs(const LiveSession & session, const EvidenceNeeds & of_policy);
// What is seen of a layer says which governed one it is. Without needs: the evidence of the policy; with observers there, all
// of them are its last queries.
Result<LayerEvidence> gather_evidence(LiveSession & session, int layer, const EvidenceNeeds & needs);
// seen: what was observed of the newest queries already (EvidenceState::newest_queries()); null: nothing.
Result<LayerEvidence> gather_evidence(LiveSession & session, int layer, Observed * seen = nullptr);
// Layers are scored side by side while their evidence, in memory, comes to no more than about so much.
inline constexpr size_t kScoredTogetherBytes = size_t{16} << 20U;
size_t bytes_of(const LayerEvidence & evidence);
// What plans of the eviction at hand depend on.
PlannedEviction::State state_of(const LiveSession & session);
// Whether evict_all() would plan anything, as things are.
bool has_to_evict(const LiveSession & session);
Status apply_plans(LiveSession & session, std::span<const LayerPlan> plans, bool is_last);

}  // namespace pith
