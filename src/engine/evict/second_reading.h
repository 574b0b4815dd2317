// second_reading.h - tokens run behind all that lanes hold, and nothing of it stays. Stage: engine.
#pragma once

#include <utility>
#include <vector>

#include "engine/pass/live_session.h"

namespace pith {

// Puts aside what running tokens changes, and brings it back, whatever happens meanwhile.
class SecondReading {
public:
    // evidence: told of what runs as long as this lives.
    SecondReading(LiveSession & session, EvidenceState evidence)
        : session_(session),
          lengths_(session.seq.lane_lengths()),
          states_(session.seq.states),
          gate_state_(session.seq.gate_state),
          asked_(session.gates && session.gates->set_asked(false)),
          n_tokens_(session.seq.n_tokens),
          evidence_(std::exchange(session.seq.evidence, std::move(evidence))) {
        session.seq.gate_state.show_all();  // or what gates hide would leave the lanes as these tokens pass
    }
    ~SecondReading() {
        session_.seq.truncate(lengths_);
        session_.seq.evidence = std::move(evidence_);
        session_.seq.states = std::move(states_);
        session_.seq.gate_state = std::move(gate_state_);
        session_.seq.n_tokens = n_tokens_;
        if (session_.gates) { session_.gates->set_asked(asked_); }
    }
    SecondReading(const SecondReading &) = delete;
    SecondReading & operator=(const SecondReading &) = delete;

private:
    LiveSession & session_;
    std::vector<int> lengths_;
    RecurrentStates states_;
    GateState gate_state_;
    bool asked_;
    int64_t n_tokens_;
    EvidenceState evidence_;
};

}  // namespace pith
