// observers.h - tokens of questions that will be asked later: they run behind a prompt as queries only, and are taken back.
// Stage: engine.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/pass/live_session.h"

namespace pith {

// They observe the prompt that is read from now on, which may still find that they cannot. They must live as long.
void begin_observing(LiveSession & session, std::span<const int32_t> questions);
// begin_observing(), and however the call ends nobody observes any more: the questions are the caller's.
class Observing {
public:
    Observing(LiveSession & session, std::span<const int32_t> questions) : session_(session) {
        begin_observing(session, questions);
    }
    ~Observing() { end(); }
    Observing(const Observing &) = delete;
    Observing & operator=(const Observing &) = delete;
    void end() { session_.observers = {}; }

private:
    LiveSession & session_;
};

// What the policy looks at: with observers there, the last queries are all of them, and so is the last.
EvidenceNeeds needs_in_sight(const Policy & policy, std::span<const int32_t> observers);

// The observers through one layer, behind the prompt that its lanes hold. states [n][D]: theirs, from layer to layer.
Status observe(LiveSession & session, int layer, std::span<float> states);
// Out of the layer's lanes. before: its evidence without them.
void take_back_observers(LiveSession & session, int layer, EvidenceState::Layer before);
// Plans that were made while they stood at the lanes' ends, where they no longer are.
void leave_out_observers(const LiveSession & session, std::vector<LayerPlan> & plans);

}  // namespace pith
