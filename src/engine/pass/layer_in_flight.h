// layer_in_flight.h - a layer of a prompt that has been read, and is scored while a device computes the next layer's first
// chunk. Stage: evidence → score, beside model graph → attention.
//
// What was seen of it waits here, and its lanes stay whole until it is scored. A graph that no device runs alone waits until
// that is done: this machine's threads score.
// Threads: one at a time; nothing runs on behind a call.
#pragma once

#include <functional>
#include <optional>

#include "evidence/evidence_state.h"
#include "pith/status.h"

namespace pith {

class Forward;

class LayerInFlight {
public:
    using Score = std::function<Status(const LayerEvidence & seen)>;
    using Graph = std::function<Status()>;

    bool any() const { return seen_.has_value(); }
    // REQUIRES: !any(); no LayerEvidence::values, which are read where the lanes lie.
    void hold(LayerEvidence seen) { seen_ = std::move(seen); }
    void forget() noexcept { seen_.reset(); }

    // Scores it on the calling thread; nothing waits any more, whatever comes of it. REQUIRES: any().
    Status score(const Score & score);
    // The same, while another thread runs `graph`, where there can be one, or else in front of it. Both have ended, and are
    // what they would have come to one after the other: errors are those of the first that fails. REQUIRES: `graph` uses
    // forward's runners but for observer_there(), and `score` at most that one.
    Status score_beside(Forward & forward, const Score & score, const Graph & graph);

private:
    std::optional<LayerEvidence> seen_;
};

}  // namespace pith
