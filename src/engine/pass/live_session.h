// live_session.h - a session while it is open: its parts, its sequence, its gates, and the call at hand. Stage: engine.
//
// It does nothing itself. What is done with it, from a call's first check to its commit:
//   settle/auto.h, session_plan.h, memory.h  what is decided before a prompt is read
//   read/feed.h                              a call: its transaction, and tokens on their way in
//   read/read_chunks.h, read_one_shot.h      the schedules: which layer sees which tokens when, and when it evicts
//   pass/token_pass.h                        the one way from tokens to logits, under what gates say (session_gates.h)
//   evict/observers.h, reread.h              tokens that run as queries only: of questions to come, of the text once more
//   evict/evict.h                            evidence → score → refine → allocate → select → plan → compaction
//   evict/evict_as.h, second_stage.h         the same for a prompt already read, under another policy, in sight of what is
//   asked pass/session_ledger.h                    what it has cost
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/draft/ngram_draft.h"
#include "engine/parts/model_parts.h"
#include "engine/parts/session_parts.h"
#include "engine/pass/ahead_rows.h"
#include "engine/pass/forward.h"
#include "engine/pass/session_gates.h"
#include "engine/pass/token_pass.h"
#include "engine/sequence/sequence.h"
#include "pith/ledger.h"
#include "pith/session.h"
#include "plan/run_plan.h"

namespace pith {

class PaidBehind;

// Plans of an eviction that comes next, made with other sequences' (evict/plan_there.h), and what they were made of.
struct PlannedEviction {
    struct State {
        int64_t n_tokens = 0;
        uint64_t n_moves = 0;
        int64_t n_entries = 0;
        int64_t budget = 0;
        int64_t most_of_lane = 0;
        Policy policy;
        std::vector<PositionSpan> pinned;  // and observers
        bool operator==(const State &) const = default;
    };
    std::vector<LayerPlan> plans;
    State made_of;
};

struct LiveSession : SessionParts {
    Sequence seq;
    std::unique_ptr<SessionGates> gates;  // null: the model has none
    // While a prompt is read for questions that come later: their tokens. Empty: there are none, or they are not in sight.
    std::span<const int32_t> observers;
    std::optional<RunPlan> given_plan;  // for the first prompt: an engine has reserved memory for it
    Ledger ledger;
    AheadRows ahead;   // of tokens that were drafted
    NgramDraft draft;  // by which they are

    // Of the call at hand.
    PaidBehind * asking = nullptr;   // what is chosen behind its tokens is chosen by what they pay; null: nothing is
    TokenPass pass;                  // where its tokens are not in others' (an engine's sequences share one)
    std::vector<float> next_logits;  // the sequence's once it has succeeded
    std::optional<Ledger> ledger_before;
    std::optional<PlannedEviction> planned;

    // Whether lanes may take so many bytes, and never more.
    bool bytes_are_bounded() const { return seq.aside() == Spill::kFile; }
};

inline KnownGates known_gates(const LiveSession & session) {
    return known_gates(session.gates ? &session.gates->gate() : nullptr);
}

// The session that its user holds, and what is in it.
Session hand_out(std::unique_ptr<LiveSession> session);
LiveSession & live_session(Session & session);

}  // namespace pith
