// evict_as.cpp - the policy to follow, and its cascade over lanes that nothing is gone from.
#include "engine/evict/evict_as.h"

#include <utility>

#include "core/stopwatch.h"
#include "engine/evict/evict.h"
#include "engine/evict/reread.h"
#include "engine/pass/session_ledger.h"
#include "engine/settle/auto.h"
#include "engine/settle/session_plan.h"
#include "plan/budget_check.h"

namespace pith {
namespace {

// What the lanes of one layer keep of themselves as they stand, after any number of plans made one after the other.
class Remaining {
public:
    void then(const Ragged<int32_t> & keep) {
        if (!changed_) {
            keep_ = keep;
            changed_ = true;
            return;
        }
        Ragged<int32_t> composed;
        std::vector<int32_t> row;
        for (int h = 0; h < keep.n_rows(); ++h) {
            row.clear();
            for (const int32_t j : keep.row(h)) { row.push_back(keep_.row(h)[static_cast<size_t>(j)]); }
            composed.push_row(row);
        }
        keep_ = std::move(composed);
    }
    bool changed() const { return changed_; }
    Ragged<int32_t> take() { return std::move(keep_); }

private:
    Ragged<int32_t> keep_;  // [K]
    bool changed_ = false;
};

}  // namespace

PolicyTrial::PolicyTrial(LiveSession & session)
    : session_(session),
      policy_(session.seq.policy),
      asked_(session.seq.policy_asked),
      reason_(session.seq.policy_reason),
      budget_(session.seq.budget),
      plan_(session.seq.plan) {}

PolicyTrial::~PolicyTrial() {
    if (kept_) { return; }
    Sequence & seq = session_.seq;
    if (evidence_) { seq.evidence = std::move(*evidence_); }
    seq.policy = std::move(policy_);
    seq.policy_asked = std::move(asked_);
    seq.policy_reason = std::move(reason_);
    seq.budget = budget_;
    seq.plan = plan_;
}

Status PolicyTrial::follow(const PolicyChoice & asked, const Budget & budget) {
    PITH_ASSIGN_OR_RETURN(NextPolicy next, next_policy(session_, asked, budget));
    Sequence & seq = session_.seq;
    seq.policy = std::move(next.choice.policy);
    seq.policy_asked = asked;
    seq.policy_reason = std::move(next.choice.reason);
    seq.budget = budget;
    seq.plan = next.plan;
    return seq.policy.rereads() ? read_again() : Status();
}

Status PolicyTrial::read_again() {
    evidence_.emplace(session_.seq.evidence);
    return pith::read_again(session_);
}

Status check_follows(const LiveSession & session, const Policy & next) {
    if (next.gated()) {
        return {ErrorCode::kInvalidArgument, "policy '" + next.name() +
                                                 "' decides what the prompt's own queries see, so it cannot be applied after a "
                                                 "prefill: make a session with this policy and prefill it"};
    }
    if (session.seq.n_tokens == 0 || !session.seq.cache) {
        return {ErrorCode::kInvalidArgument, "a session must be prefilled before it can evict"};
    }
    if (next.wants_importance() && !session.options.heads) {
        return {ErrorCode::kInvalidArgument, "policy '" + next.name() +
                                                 "' needs head importances: name it in SessionOptions::observe, or give "
                                                 "SessionOptions::heads_file"};
    }
    return {};
}

Result<NextPolicy> next_policy(const LiveSession & session, const PolicyChoice & asked, const Budget & budget) {
    const Sequence & seq = session.seq;
    PITH_RETURN_IF_ERROR(budget.check());
    const bool in_sight = seq.question_end > 0 && seq.question_end == seq.n_tokens;
    PITH_ASSIGN_OR_RETURN(AutoChoice choice, choice_of_eviction(session, asked, budget, in_sight));
    const Policy & next = choice.policy;
    PITH_RETURN_IF_ERROR(check_follows(session, next));
    if (seq.cache->n_entries() != seq.n_tokens * session.shape().n_lanes()) {
        return {ErrorCode::kInvalidArgument, "something was evicted already: policy '" + next.name() +
                                                 "' cannot see what is gone; restore a snapshot of the full cache first"};
    }
    PITH_ASSIGN_OR_RETURN(const RunPlan plan, make_plan(session, next, budget, PrefillSchedule::kOneShot, seq.n_tokens));
    PITH_RETURN_IF_ERROR(check_prompt(session.options, next, budget, plan, seq.n_tokens));
    return NextPolicy{std::move(choice), plan};
}

Result<std::vector<LayerPlan>> plan_cascade(LiveSession & session) {
    const Sequence & seq = session.seq;
    if (!seq.must_evict(seq.n_tokens)) { return std::vector<LayerPlan>(); }
    const bool cascade = !seq.policy.wants_all_layers();
    EvictionPass pass(seq.policy, eviction_target(session), cascade, static_cast<int>(seq.n_tokens));
    std::vector<Remaining> layers(static_cast<size_t>(session.n_layers()));
    const auto compose = [&](std::span<const LayerPlan> plans) {
        for (const LayerPlan & one : plans) {
            layers[static_cast<size_t>(session.governed[static_cast<size_t>(one.layer)])].then(one.keep);
        }
    };
    for (const int layer : session.governed) {
        PITH_ASSIGN_OR_RETURN(const LayerEvidence seen, gather_evidence(session, layer));
        const Stopwatch watch;
        PITH_RETURN_IF_ERROR(pass.add_layer(seen));
        std::vector<LayerPlan> plans;
        if (cascade) { PITH_ASSIGN_OR_RETURN(plans, pass.cascade()); }
        compose(plans);
        session.ledger.plan_s += watch.seconds();
    }
    const Stopwatch watch;
    PITH_ASSIGN_OR_RETURN(const std::vector<LayerPlan> last, pass.finish());
    compose(last);
    std::vector<LayerPlan> plans;
    for (size_t l = 0; l < layers.size(); ++l) {
        if (layers[l].changed()) { plans.push_back({static_cast<int>(l), layers[l].take()}); }
    }
    session.ledger.plan_s += watch.seconds();
    return plans;
}

Status evict_as(LiveSession & session, const PolicyChoice & asked, const Budget & budget) {
    Sequence & seq = session.seq;
    PolicyTrial trial(session);
    PITH_RETURN_IF_ERROR(trial.follow(asked, budget));
    PITH_ASSIGN_OR_RETURN(const std::vector<LayerPlan> plans, plan_cascade(session));
    // Nothing will be evicted again: what is read and said from here on need not be remembered. A snapshot brings it back.
    std::optional<EvidenceState> none;
    if (seq.plan->evict_every == 0) {
        none.emplace(session.layout.shape_of_model(), std::vector<EvidenceNeeds>(), session.output);
    }
    PolicyNames names = policy_names(seq);
    PITH_RETURN_IF_ERROR(apply_plans(session, plans, /*is_last=*/true));
    if (plans.empty()) { seq.evidence.forget_reread(); }  // a session of this policy would not have read again yet
    trial.keep();
    tell_policy(std::move(names), session.ledger);
    seq.since_eviction = 0;
    if (none) { seq.evidence = std::move(*none); }
    seq.gate_state.show_all();  // no policy to follow is gated: under this one, what gates said no to would be there to stay
    tell_budget(session);
    return {};
}

}  // namespace pith
