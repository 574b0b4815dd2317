// sequence.h - one conversation: what its lanes hold, what attention left behind, under which policy and plan; and the way
// back from a call that fails. Stage: engine.
//
// A call that changes a sequence is a transaction: begin(), then commit(), or rollback(), after which the sequence is, bit for
// bit, what it was: lanes, evidence, gates, policy, plan, logits, counters. Entries that came since are cut off; those that a
// compaction took meanwhile are kept until then and put back. A snapshot is a way back that lives on (snapshot.cpp).
// Threads: one at a time.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cache/cold_store.h"
#include "cache/ragged_cache.h"
#include "core/tasks.h"
#include "engine/sequence/gate_state.h"
#include "engine/sequence/looked_for.h"
#include "engine/sequence/recurrent_states.h"
#include "engine/sequence/token_history.h"
#include "evidence/evidence_state.h"
#include "pith/session.h"
#include "plan/run_plan.h"
#include "policy/eviction.h"
#include "policy/policy.h"

namespace pith {

// Of one sequence: positions are i32.
inline constexpr int64_t kMostSequenceTokens = int64_t{1} << 30U;

// How a sequence is read and evicted, and how far it is: what can be told of it without its model.
struct SequencePlan {
    PolicyChoice policy_asked;  // `auto` may be
    std::string policy_reason;  // why `auto` chose the one that evicts; empty: it did not
    Budget budget;
    std::string schedule;         // how the first prompt was read, for the ledger
    std::optional<RunPlan> plan;  // known from the first prompt on
    int64_t question_end = 0;     // the first prompt ended here, in a question; 0: in none
    int64_t n_tokens = 0;         // fed so far: the next position
    int since_eviction = 0;       // tokens fed since lanes were last brought back to the budget
};

// All but the lanes and the newest token's logits: what a snapshot copies.
struct SequenceState : SequencePlan {
    Policy policy;  // the one that evicts
    EvidenceState evidence;
    GateState gate_state;
    RecurrentStates states;  // empty before the first prompt
    TokenHistory tokens;     // all that were fed, those of the call at hand included
    ColdStore cold;          // what evictions took out of the lanes, where that is kept
    // Of the newest question, where what its answer looks for is to come back, too; null: not. No file holds it.
    std::shared_ptr<const LookedFor> looked_for;
    int64_t repair_at = 0;  // when so many tokens have been read, that is done next

    bool evicts() const { return plan.has_value() && plan->budget > 0; }
    int64_t budget_now() const { return plan ? plan->budget_at(n_tokens) : 0; }
    // Of so many entries in so many lanes some are to go: they are more than the budget, or the policy may keep less than that.
    bool must_evict(int64_t n_entries, int64_t n_lanes = 1) const {
        return evicts() && (n_entries > budget_now() * n_lanes || policy.keeps_less());
    }
};

// A sequence that no call works on: a snapshot, a state that others go on from, what a cache file says, what comes back from a
// spill file. Its lanes lie in a cache; or elsewhere, until it becomes a session's again (cache/resting_lanes.h).
struct SequenceAtRest {
    SequenceState state;
    std::vector<float> logits;           // of the newest token
    std::unique_ptr<RaggedCache> cache;  // null: its lanes lie elsewhere, or it has none
    int64_t n_evictions = 0;             // of its session's ledger, where a session of its own begins with it
    int64_t evicted_entries = 0;

    // The same with these lanes. Throws std::bad_alloc.
    SequenceAtRest with(std::unique_ptr<RaggedCache> lanes) const {
        return {state, logits, std::move(lanes), n_evictions, evicted_entries};
    }
};

class Sequence : public SequenceState {
public:
    Sequence();
    Sequence(const Sequence &) = delete;
    Sequence & operator=(const Sequence &) = delete;

    uint64_t id() const { return id_; }  // no other sequence of the process has it
    std::unique_ptr<RaggedCache> cache;  // none before the first prompt
    std::vector<float> logits;           // [n_vocab] of the newest token

    std::vector<int> lane_lengths() const;  // [lane]
    // Counts what moves entries, or takes rows that tokens have left out of the lanes, and what puts others in their place: all
    // but tokens that are added.
    uint64_t n_moves() const { return n_moves_; }
    // Cuts every lane back to its first so many entries; lengths as lane_lengths().
    void truncate(std::span<const int> lengths) noexcept;

    // It as it stands, but for its lanes. Throws std::bad_alloc.
    SequenceAtRest at_rest() const { return {.state = *this, .logits = logits}; }
    // The way back of every form at rest. REQUIRES: no transaction is open.
    void become(SequenceAtRest from) noexcept;

    // Set where nobody goes on with it when the reading of a prompt has failed: such a call begins with kAnew. An answer's
    // token that fails or is cancelled is fed again, and finds what it found.
    bool disposable = false;
    bool has_ceiling = false;  // in bytes: an engine's for all its sequences

    // How much a call may change before it fails.
    enum class Reach {
        kOneToken,  // a token behind others: one entry to each lane, and running sums; what else it changes cannot fail
        kAll,
        kAnew,  // a prompt behind another sequence's entries: whoever tries again takes these anew, so none of it comes back
    };
    // REQUIRES: no other transaction is open. Throws std::bad_alloc; nothing is open then.
    // Cost: of kAll a copy of the state, in which evidence shares what goes with queries and entries: a few words for each
    // head, and of these rows what changes afterwards; of kOneToken a pointer for each head, where sums run; of kAnew nothing.
    void begin(Reach reach);
    void commit() noexcept;
    void rollback() noexcept;  // nothing, where none is open

    // Drops from the lanes what the plans do not keep, all of it or, on an error or std::bad_alloc, nothing. Snapshots that
    // point at these lanes save theirs first. Returns how many entries went.
    // evicts: by a policy's plan. is_last: nothing that follows in the call can fail; otherwise what goes is kept for a
    // rollback, in a temporary file where a ceiling in bytes holds. run_tasks: for layers side by side.
    Result<int64_t> compact(std::span<const LayerPlan> plans, bool evicts, bool is_last,
                            const RunTasks & run_tasks = run_in_turn);

    // Cold entries for some of the lanes' own: drops what the plans do not keep, and puts these between the rest. What is cold
    // and what attention left behind is from then on as `cold` and `evidence` say. All of it or, on an error, nothing; nothing
    // that follows in the call can fail.
    struct Swap {
        std::vector<LayerPlan> plans;
        RestingLanes back;
        ColdStore cold;
        EvidenceState evidence;
    };
    Status swap(Swap swap, const RunTasks & run_tasks);

    // Keys stand elsewhere from now on (cache/turned_keys.h), and so do the queries that evidence keeps. All of it or, on an
    // error or std::bad_alloc, nothing. is_last: as above.
    Status turn(TurnedKeys keys, EvidenceState turned, bool is_last);
    // Where what is put aside for a while lies: a ceiling in bytes, its own or an engine's, is all that lanes may take.
    Spill aside() const;

    // Takes out of layers [begin, end) with a window what queries at next_position and later do not see. Nothing that is
    // computed changes by it. prepare_trim() comes first, and takes nothing out; is_last: as above, or else nothing may come
    // between the two.
    Status prepare_trim(int begin, int end, int64_t next_position, bool is_last);
    void trim(int begin, int end, int64_t next_position) noexcept;
    bool trims(int64_t next_position) const noexcept;  // whether that would take anything out of any layer

    // Counts what is held now. beside: bytes of lanes' rows that are neither in them, nor a snapshot's, nor kept for a
    // rollback.
    void count_peak(size_t beside) noexcept;
    // The most that was ever held in memory: lanes, snapshots' entries, recurrent states, and what a rollback would put back.
    size_t peak_bytes() const { return peak_bytes_; }
    // What the open call would go back to, in memory.
    size_t undo_bytes() const;
    size_t undo_evidence_bytes() const;  // of that what attention left behind: the rest is lanes' entries and recurrent states
    // Beside lanes' entries, evidence and undo: positions, tokens and logits.
    size_t bookkeeping_bytes() const;

    // snapshot.cpp
    std::shared_ptr<Session::Snapshot> snapshot();
    Status restore(Session::Snapshot & snapshot);
    size_t saved_bytes() const;  // by snapshots

private:
    Status hold_room_for(const Swap & swap) const;
    Status save_snapshots_before_compaction(Layers which);
    Status save_snapshots_that_restoring_breaks(const Session::Snapshot & target, Layers which);
    int n_behind_window(int layer, int64_t next_position) const noexcept;
    void read_lengths(std::vector<int> & to) const;
    Status remember_dropped(std::span<const LayerKeep> keeps);

    struct TurnBack {
        TurnedKeys keys;
        size_t n_dropped = 0;  // compactions before it
    };

    struct WayBack {
        bool open = false;
        bool had_cache = false;
        bool anew = false;
        int64_t n_tokens = 0;
        int since_eviction = 0;
        std::vector<int> lengths;
        std::vector<SharedRow> running;      // kOneToken: the evidence's sums
        RecurrentStates states;              // kOneToken
        std::optional<SequenceState> state;  // kAll
        std::vector<RestingLanes> dropped;   // in the order of the compactions
        std::vector<TurnBack> turned;        // in their order
    };

    uint64_t id_ = 0;
    uint64_t n_moves_ = 0;
    // Of governed layers, and of those with a window: counts compactions and restores. A snapshot of another epoch must have
    // saved its entries of these layers.
    std::array<uint64_t, 2> epochs_{};
    uint64_t & epoch(Layers which) { return epochs_[which == Layers::kWindows ? 1 : 0]; }
    std::vector<std::weak_ptr<Session::Snapshot>> snapshots_;
    WayBack way_back_;
    size_t peak_bytes_ = 0;
};

// Its lanes are the first entries of the sequence's own, until a compaction would move them.
struct Session::Snapshot : SequenceAtRest {
    uint64_t sequence = 0;     // Sequence::id() of the one it was taken from
    std::vector<int> lengths;  // [lane]
    struct Part {
        uint64_t epoch = 0;                 // when it was taken
        std::optional<RestingLanes> saved;  // the entries, once a later compaction would have moved them
    };
    std::array<Part, 2> parts;  // of governed layers, of those with a window
    Part & part(Layers which) { return parts[which == Layers::kWindows ? 1 : 0]; }
    const Part & part(Layers which) const { return parts[which == Layers::kWindows ? 1 : 0]; }
};

}  // namespace pith
