// session_impl.h - a session's state, and the stages of a run in order. Stage: engine.
//
//   auto.cpp      what the policy `auto` becomes
//   prefill.cpp   a call from its first check to its commit
//   read_*.cpp    the schedules: which layer sees which tokens when, and when it evicts
//   memory.cpp    what may be taken of the memory that is left
//   reread.cpp    the text read once more, before an eviction that weighs what it looks up
//   observers.cpp tokens that run behind a prompt, as queries only, and are taken back
//   forward.cpp   one layer over some tokens; K/V into the lanes, attention, evidence
//   gating.cpp    what gates say of prompt tokens, and what follows for lanes
//   evict.cpp     evidence → score → refine → allocate → select → plan → compaction
//   evict_as.cpp  the same for a prompt already prefilled in full, under any policy observed
//   second_stage.cpp  the same once more, in the sight of what is asked
//   snapshot.cpp  states to come back to
//   sequence.cpp  what a failed call leaves as it was
//   saved/session_file.cpp  to a file, and back
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "cache/ragged_cache.h"
#include "engine/forward.h"
#include "engine/gate_runner.h"
#include "engine/sequence.h"
#include "pith/model.h"
#include "pith/session.h"
#include "plan/run_plan.h"
#include "policy/auto_policy.h"
#include "policy/eviction.h"

namespace pith {

class CacheFileView;
struct Execution;
struct SavedSession;

struct Session::Impl {
    // Of a session, for what stands in this folder alone: others have the probes.
    static Impl & of(Session & session) { return *session.impl_; }
    // The session that its user holds.
    static Session hand_out(std::unique_ptr<Impl> impl) { return Session(std::move(impl)); }

    std::optional<Model> model;  // set, once it is made
    std::shared_ptr<const ModelFile> file;
    SessionOptions options;  // policy and budget: of the beginning; those in force are the sequence's
    Sequence seq;
    KnownHeads known_heads = KnownHeads::kNone;
    std::shared_ptr<OutputMatrices> output;  // of the model: all its sessions share them
    CacheLayout layout;
    std::shared_ptr<Execution> execution;
    std::shared_ptr<Forward> forward;     // its, with its threads; an engine's sequences share them
    std::unique_ptr<GateRunner> gates;    // null: the model has none
    std::vector<EvidenceNeeds> observed;  // of options.observe

    // What a layer's gate says of the run at hand.
    struct GateAnswer {
        std::vector<float> probabilities;  // [n][K]
        int32_t first_position = 0;
    };
    std::vector<GateAnswer> answers;  // [layer]
    bool gating = false;              // the tokens of the run at hand are a gate's business
    // Shown what gates say of the n tokens from first_position on: probabilities [n][K]. While it is set, gates run whatever
    // the policy is.
    std::function<void(int layer, std::span<const float> probabilities, int n, int32_t first_position)> gate_observer;

    // While a prompt is read for questions that come later: their tokens. Empty: there are none, or they are not in sight.
    std::span<const int32_t> observers;

    bool keeps_whole_way_back = false;                     // a token's pass tells evidence before it may fail
    std::shared_ptr<const HeadImportance> governed_heads;  // of options.heads, those that policies govern
    std::optional<RunPlan> given_plan;                     // for the first prompt: an engine has reserved memory for it

    std::vector<float> next_logits;  // of the call at hand, the sequence's once it has succeeded
    std::vector<float> hidden;
    mutable Ledger ledger;
    std::optional<Ledger> ledger_before;  // the call at hand

    const CacheShape & shape() const { return layout.shape; }  // of what policies govern
    int n_layers() const { return layout.n_layers(); }         // of the model
    // Policies count governed layers alone, from 0; everybody else counts all.
    std::vector<int> governed;  // [governed layer]: which of the model it is
    int governed_index(int layer) const {
        return static_cast<int>(std::ranges::lower_bound(governed, layer) - governed.begin());
    }
    std::vector<LayerPlan> of_model(std::vector<LayerPlan> plans) const {
        for (LayerPlan & one : plans) { one.layer = governed[static_cast<size_t>(one.layer)]; }
        return plans;
    }
    bool evicts() const { return seq.plan.has_value() && seq.plan->budget > 0; }

    // gating.cpp
    bool has_gate(int layer) const;  // REQUIRES: there are gates
    bool wants_gates() const;
    bool gates_prompt(bool first) const;
    bool needs_whole_prompt(const Policy & for_policy) const;
    void reset_gates();
    void end_gating();
    Status ask_gates(int layer, const GateInput & in, int32_t first_position);
    Status run_layer(int layer, std::span<const int32_t> tokens, std::span<float> rows, int n, int32_t first_position,
                     int n_out, int n_to_come = 0);
    Status drop_hidden(int layer, int32_t next_position);

    // auto.cpp
    struct PolicyNames {
        std::string policy;
        std::string reason;
        std::string schedule;
    };
    void settle_policy(AutoFacts facts);
    bool memory_holds_all(int64_t n_prompt) const;
    Result<AutoChoice> choice_of_eviction(const PolicyChoice & asked, const Budget & budget, bool in_sight) const;
    PolicyNames policy_names(const SequenceState & state) const;
    void tell_policy(PolicyNames names) const noexcept;  // made beforehand, where nothing may fail any more

    // prefill.cpp
    // A call is begin_call(), its tokens (read_chunks.h, read_one_shot.h), end_call().
    Status feed(std::span<const int32_t> tokens, bool is_prompt, const RunHooks & hooks);
    Status check_tokens(std::span<const int32_t> tokens) const;
    Result<RunPlan> make_plan(const Policy & for_policy, const Budget & budget, PrefillSchedule schedule, int64_t n_prompt,
                              int n_question = 0) const;
    int n_around_reread() const;
    Status decide(int64_t n_prompt, int n_question);
    Status start(int64_t n_prompt, int n_question);
    Status prefill_one_shot(std::span<const int32_t> tokens, const RunHooks & hooks);
    Status prefill_chunks(std::span<const int32_t> tokens, const RunHooks & hooks, bool first);
    Status run_chunk(std::span<const int32_t> tokens, const RunHooks & hooks, bool is_last);
    Status run_layers(std::span<const int32_t> tokens, bool all_states);
    Status emit_logits(std::span<const float> states, int n, int64_t first_position, const RunHooks & hooks);
    Status begin_call(std::span<const int32_t> tokens, bool is_prompt, const RunHooks & hooks);
    void end_call(const Status & status) noexcept;
    Sequence::Reach reach_of(std::span<const int32_t> tokens, const RunHooks & hooks) const;
    void forget_call(Ledger before) noexcept;

    // memory.cpp
    double chunk_bytes() const;
    Result<Budget> memory_budget(int n_snapshots) const;
    Result<Budget> device_budget() const;
    Result<int64_t> lane_capacity(int64_t n_all) const;

    // observers.cpp
    Result<bool> feed_for(std::span<const int32_t> tokens, std::span<const int32_t> questions, const RunHooks & hooks);
    // begin_observing(), and however the call ends nobody observes any more: the questions are the caller's.
    class Observing {
    public:
        Observing(Impl & session, std::span<const int32_t> questions) : session_(session) {
            session.begin_observing(questions);
        }
        ~Observing() { end(); }
        Observing(const Observing &) = delete;
        Observing & operator=(const Observing &) = delete;
        void end() { session_.observers = {}; }

    private:
        Impl & session_;
    };
    void begin_observing(std::span<const int32_t> questions);
    bool end_observing();
    EvidenceNeeds needs_in_sight() const;
    Status observe(int layer, std::span<float> states);
    void take_back(int layer, EvidenceState::Layer before);
    void leave_out_observers(std::vector<LayerPlan> & plans) const;

    // reread.cpp
    using ReadAgainProgress = std::function<void(int64_t n_done, int64_t n_total)>;  // tokens
    Status read_again(const ReadAgainProgress & progress = {});
    int64_t n_unread() const;
    Status read_piece_again(int64_t begin, int64_t end, const std::function<void(int layer)> & progress);
    Status run_again(std::span<const int32_t> tokens, const EvidenceNeeds & needs, const PositionSpan & piece,
                     const std::function<void(int layer)> & progress, std::vector<Ragged<float>> & maxima);

    // second_stage.cpp
    Status evict_for(std::span<const int32_t> questions, const PolicyChoice & asked, const Budget & budget);
    Status evict_in_their_sight(const PolicyChoice & asked, const Budget & budget);

    // evict.cpp
    bool over_budget() const;
    void choose_governed_heads();
    EvictionTarget target() const;
    Status evict_all(bool is_last);
    Status evict_in_sight_of(std::span<const int32_t> question);
    Result<std::vector<LayerPlan>> plan_all();
    std::vector<EvidenceNeeds> all_needs(const EvidenceNeeds & of_policy) const;
    // layer: of the model; what is seen of it says which governed one it is.
    Result<LayerEvidence> gather(int layer);
    Result<LayerEvidence> gather(int layer, const EvidenceNeeds & needs);
    Status apply(std::span<const LayerPlan> plans, bool is_last);

    // evict_as.cpp
    struct NextPolicy {
        AutoChoice choice;
        RunPlan plan;
    };
    Status check_follows(const Policy & next) const;
    Result<NextPolicy> next_policy(const PolicyChoice & asked, const Budget & budget) const;
    Status follow(const PolicyChoice & asked, const Budget & budget);
    Status evict_as(const PolicyChoice & asked, const Budget & budget);
    Result<std::vector<LayerPlan>> plan_cascade();

    // saved/session_file.cpp
    Status take(SavedSession saved, const CacheFileView & from, const RaggedCache * base = nullptr);

    void update_ledger() const;
    void see_evidence_peak() const;  // while a call is open: what it would go back to is part of it
    void tell_device_bytes() const;
};

// A session that runs on these threads; nullptr: on its own. known: where its importances were found, before it was saved; none
// are looked for then. Errors: those of Model::session(). Throws std::bad_alloc.
Result<std::unique_ptr<Session::Impl>> make_session(const Model & model, const SessionOptions & options,
                                                    const std::shared_ptr<Execution> & execution,
                                                    std::optional<KnownHeads> known = std::nullopt);

}  // namespace pith
