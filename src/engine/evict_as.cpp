// evict_as.cpp - evicts a full cache as a one-shot prefill under a policy would have: one prefill serves many policies.
// Stage: engine.
//
// In a layer-major prefill every query of the prompt attends to full lanes, whatever the policy, so hidden states and evidence
// are the same for all of them; only what is kept afterwards differs. The cascade is played over the full lanes, layer by
// layer; its plans are composed, and applied once.
#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "core/guarded.h"
#include "core/stopwatch.h"
#include "engine/policy_probe.h"
#include "engine/session_impl.h"
#include "plan/budget_check.h"
#include "policy/refine/refiner.h"
#include "policy/score/scorer.h"

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

Ragged<int32_t> all_of(const RaggedCache & cache, int layer) {
    Ragged<int32_t> all;
    std::vector<int32_t> row;
    for (int h = 0; h < cache.n_kv_heads(layer); ++h) {
        row.resize(static_cast<size_t>(cache.length(cache.lane(0, layer, h))));
        std::iota(row.begin(), row.end(), 0);
        all.push_row(row);
    }
    return all;
}

// Keeps policy, budget and plan of a session, and puts them back unless told otherwise.
class PolicyGuard {
public:
    explicit PolicyGuard(Session::Impl & session)
        : session_(session),
          policy_(session.seq.policy),
          asked_(session.seq.policy_asked),
          reason_(session.seq.policy_reason),
          budget_(session.seq.budget),
          plan_(session.seq.plan) {}
    ~PolicyGuard() {
        if (kept_) { return; }
        if (evidence_) { session_.seq.evidence = std::move(*evidence_); }
        session_.seq.policy = std::move(policy_);
        session_.seq.policy_asked = std::move(asked_);
        session_.seq.policy_reason = std::move(reason_);
        session_.seq.budget = budget_;
        session_.seq.plan = plan_;
    }
    PolicyGuard(const PolicyGuard &) = delete;
    PolicyGuard & operator=(const PolicyGuard &) = delete;
    void keep() { kept_ = true; }
    // What a second reading adds to the evidence goes back with the rest. Copies of evidence share it.
    Status read_again() {
        evidence_.emplace(session_.seq.evidence);
        return session_.read_again();
    }

private:
    Session::Impl & session_;
    Policy policy_;
    PolicyChoice asked_;
    std::string reason_;
    Budget budget_;
    std::optional<RunPlan> plan_;
    std::optional<EvidenceState> evidence_;
    bool kept_ = false;
};

}  // namespace

// Whether it can be the policy of a session that is prefilled, from now on.
Status Session::Impl::check_follows(const Policy & next) const {
    if (next.gated()) {
        return {ErrorCode::kInvalidArgument, "policy '" + next.name() +
                                                 "' decides what the prompt's own queries see, so it cannot be applied after a "
                                                 "prefill: make a session with this policy and prefill it"};
    }
    if (seq.n_tokens == 0 || !seq.cache) {
        return {ErrorCode::kInvalidArgument, "a session must be prefilled before it can evict"};
    }
    if (next.wants_importance() && !options.heads) {
        return {ErrorCode::kInvalidArgument, "policy '" + next.name() +
                                                 "' needs head importances: name it in SessionOptions::observe, or give "
                                                 "SessionOptions::heads_file"};
    }
    return {};
}

// What a one-shot prefill of the tokens fed so far would have had.
Result<Session::Impl::NextPolicy> Session::Impl::next_policy(const PolicyChoice & asked, const Budget & budget) const {
    PITH_RETURN_IF_ERROR(budget.check());
    const bool in_sight = seq.question_end > 0 && seq.question_end == seq.n_tokens;
    PITH_ASSIGN_OR_RETURN(AutoChoice choice, choice_of_eviction(asked, budget, in_sight));
    const Policy & next = choice.policy;
    PITH_RETURN_IF_ERROR(check_follows(next));
    if (seq.cache->n_entries() != seq.n_tokens * shape().n_lanes()) {
        return {ErrorCode::kInvalidArgument, "something was evicted already: policy '" + next.name() +
                                                 "' cannot see what is gone; restore a snapshot of the full cache first"};
    }
    PITH_ASSIGN_OR_RETURN(const RunPlan plan, make_plan(next, budget, PrefillSchedule::kOneShot, seq.n_tokens));
    PITH_RETURN_IF_ERROR(check_prompt(options, next, budget, plan, seq.n_tokens));
    return NextPolicy{std::move(choice), plan};
}

Status Session::Impl::follow(const PolicyChoice & asked, const Budget & budget) {
    PITH_ASSIGN_OR_RETURN(NextPolicy next, next_policy(asked, budget));
    seq.policy = std::move(next.choice.policy);
    seq.policy_asked = asked;
    seq.policy_reason = std::move(next.choice.reason);
    seq.budget = budget;
    seq.plan = next.plan;
    return {};
}

// The cascade over the lanes as they stand: at most one plan for each layer.
Result<std::vector<LayerPlan>> Session::Impl::plan_cascade() {
    if (!evicts() || seq.n_tokens <= seq.plan->budget) { return std::vector<LayerPlan>(); }
    const bool cascade = !seq.policy.wants_all_layers();
    EvictionPass pass(seq.policy, target(), cascade, static_cast<int>(seq.n_tokens));
    std::vector<Remaining> layers(static_cast<size_t>(n_layers()));
    const auto compose = [&](std::span<const LayerPlan> plans) {
        for (const LayerPlan & one : plans) {
            layers[static_cast<size_t>(governed[static_cast<size_t>(one.layer)])].then(one.keep);
        }
    };
    for (const int layer : governed) {
        PITH_ASSIGN_OR_RETURN(const LayerEvidence seen, gather(layer));
        const Stopwatch watch;
        PITH_RETURN_IF_ERROR(pass.add_layer(seen));
        std::vector<LayerPlan> plans;
        if (cascade) { PITH_ASSIGN_OR_RETURN(plans, pass.cascade()); }
        compose(plans);
        ledger.plan_s += watch.seconds();
    }
    const Stopwatch watch;
    PITH_ASSIGN_OR_RETURN(const std::vector<LayerPlan> last, pass.finish());
    compose(last);
    std::vector<LayerPlan> plans;
    for (size_t l = 0; l < layers.size(); ++l) {
        if (layers[l].changed()) { plans.push_back({static_cast<int>(l), layers[l].take()}); }
    }
    ledger.plan_s += watch.seconds();
    return plans;
}

// All of Session::evict(), or, on an error or std::bad_alloc, nothing.
Status Session::Impl::evict_as(const PolicyChoice & asked, const Budget & budget) {
    PolicyGuard guard(*this);
    PITH_RETURN_IF_ERROR(follow(asked, budget));
    if (seq.policy.rereads()) { PITH_RETURN_IF_ERROR(guard.read_again()); }
    PITH_ASSIGN_OR_RETURN(const std::vector<LayerPlan> plans, plan_cascade());
    // Nothing will be evicted again: what is read and said from here on need not be remembered. A snapshot brings it back.
    std::optional<EvidenceState> none;
    if (seq.plan->evict_every == 0) { none.emplace(layout.shape_of_model(), std::vector<EvidenceNeeds>(), output); }
    PolicyNames names = policy_names(seq);
    PITH_RETURN_IF_ERROR(apply(plans, /*is_last=*/true));
    if (plans.empty()) { seq.evidence.forget_reread(); }  // a session of this policy would not have read again yet
    guard.keep();
    tell_policy(std::move(names));
    seq.since_eviction = 0;
    if (none) { seq.evidence = std::move(*none); }
    seq.gate_state.show_all();  // no policy to follow is gated: under this one, what gates said no to would be there to stay
    ledger.budget_entries = seq.plan->budget;
    return {};
}

Status Session::evict(const PolicyChoice & policy, const Budget & budget, const std::atomic<bool> * cancel) {
    const Stopwatch watch;
    const CancelScope cancelling(*impl_->forward, cancel);
    PITH_RETURN_IF_ERROR(guarded([&] { return impl_->evict_as(policy, budget); }));
    impl_->ledger.prefill_s += watch.seconds();
    impl_->update_ledger();
    return {};
}

Result<Ragged<float>> refined_scores(const Policy & policy, const LayerEvidence & evidence) {
    const Scorer & scorer = policy.scorer();
    Ragged<float> scores;
    PITH_RETURN_IF_ERROR(scorer.score(evidence, scores));
    if (const Refiner * refiner = policy.refiner()) {
        Ragged<float> heads;
        const bool has_heads = refiner->wants_head_scores() && scorer.has_head_scores();
        if (has_heads) { PITH_RETURN_IF_ERROR(scorer.score_heads(evidence, heads)); }
        PITH_RETURN_IF_ERROR(refiner->refine(evidence, has_heads ? &heads : nullptr, scores));
    }
    return scores;
}

PolicyProbe::PolicyProbe(Session & session, const std::atomic<bool> * cancel)
    : impl_(Session::Impl::of(session)), cancel_(cancel) {}

Result<PolicyView> PolicyProbe::view(const PolicyChoice & policy, const Budget & budget) {
    const CancelScope cancelling(*impl_.forward, cancel_);
    PolicyGuard guard(impl_);
    PITH_RETURN_IF_ERROR(impl_.follow(policy, budget));
    if (impl_.seq.policy.rereads()) { PITH_RETURN_IF_ERROR(guard.read_again()); }
    PITH_ASSIGN_OR_RETURN(std::vector<LayerPlan> plans, impl_.plan_cascade());
    PolicyView view;
    for (int layer = 0; layer < impl_.n_layers(); ++layer) {
        view.kept.push_back(all_of(*impl_.seq.cache, layer));
        if (!impl_.layout.governs(layer)) {
            view.scores.emplace_back();
            continue;
        }
        PITH_ASSIGN_OR_RETURN(const LayerEvidence seen, impl_.gather(layer));
        PITH_ASSIGN_OR_RETURN(Ragged<float> scores, refined_scores(impl_.seq.policy, seen));
        view.scores.push_back(std::move(scores));
    }
    for (LayerPlan & plan : plans) { view.kept[static_cast<size_t>(plan.layer)] = std::move(plan.keep); }
    return view;
}

Result<LayerEvidence> PolicyProbe::evidence(int layer, const EvidenceNeeds & needs) {
    if (!impl_.seq.cache) { return Status(ErrorCode::kInvalidArgument, "a session must be prefilled before it has evidence"); }
    const CancelScope cancelling(*impl_.forward, cancel_);
    PolicyGuard guard(impl_);
    if (needs.reread_max) { PITH_RETURN_IF_ERROR(guard.read_again()); }
    return impl_.gather(layer, needs);
}

}  // namespace pith
