// second_stage.cpp - what a first eviction has left, evicted once more in the sight of what is asked. Stage: engine.
#include <utility>

#include "core/guarded.h"
#include "core/stopwatch.h"
#include "engine/session_impl.h"
#include "plan/budget_check.h"

namespace pith {

Status Session::evict_for_questions(std::span<const int32_t> questions, const PolicyChoice & policy, const Budget & budget,
                                    const std::atomic<bool> * cancel) {
    const Stopwatch watch;
    const CancelScope cancelling(*impl_->forward, cancel);
    const Status status = guarded([&] { return impl_->evict_for(questions, policy, budget); });
    impl_->ledger.prefill_s += watch.seconds();
    impl_->update_ledger();
    return status;
}

// A transaction around it.
Status Session::Impl::evict_for(std::span<const int32_t> questions, const PolicyChoice & asked, const Budget & budget) {
    if (questions.empty()) {
        return {ErrorCode::kInvalidArgument, "evict_for_questions() was given no questions: evict() evicts without"};
    }
    PITH_RETURN_IF_ERROR(check_tokens(questions));
    Observing observing(*this, questions);
    if (observers.empty()) {
        return {ErrorCode::kInvalidArgument,
                "the model's gates are asked what to keep: questions that come later cannot be in their sight"};
    }
    Ledger before = ledger;
    const Status status = guarded([&]() -> Status {
        seq.begin(Sequence::Reach::kAll);
        PITH_RETURN_IF_ERROR(evict_in_their_sight(asked, budget));
        tell_policy(policy_names(seq));
        return {};
    });
    observing.end();
    if (status.ok()) {
        see_evidence_peak();
        seq.commit();
        ledger.budget_entries = seq.plan->budget;
    } else {
        update_ledger();  // peaks, while they can be seen
        seq.rollback();
        forget_call(std::move(before));
    }
    return status;
}

// REQUIRES: the questions observe.
Status Session::Impl::evict_in_their_sight(const PolicyChoice & asked, const Budget & budget) {
    PITH_RETURN_IF_ERROR(budget.check());
    PITH_ASSIGN_OR_RETURN(AutoChoice choice, choice_of_eviction(asked, budget, /*in_sight=*/true));
    Policy & next = choice.policy;
    PITH_RETURN_IF_ERROR(check_follows(next));
    if (next.needs_gate()) {
        return {ErrorCode::kInvalidArgument, "policy '" + next.name() +
                                                 "' asks the model's gates, which questions that come "
                                                 "later have no part in: choose another for them"};
    }
    // Its lanes are there: what is left to plan is as in a prompt that goes on in chunks.
    PITH_ASSIGN_OR_RETURN(RunPlan plan, make_plan(next, budget, PrefillSchedule::kChunked, seq.n_tokens));
    PITH_RETURN_IF_ERROR(check_prompt(options, next, budget, plan, seq.n_tokens));
    seq.policy = std::move(next);
    seq.policy_asked = asked;
    seq.policy_reason = std::move(choice.reason);
    seq.budget = budget;
    seq.plan = plan;
    if (!evicts()) { return {}; }
    if (!seq.evidence.widen(needs_in_sight())) {
        return {ErrorCode::kMissingEvidence,
                "policy '" + seq.policy.name() +
                    "' asks what all queries paid, for attention within blocks, for norms of keys or "
                    "for a second reading, and this session did not keep that: name the policy "
                    "when the session is made, or take one that looks at the last queries"};
    }
    PITH_RETURN_IF_ERROR(evict_in_sight_of(observers));
    seq.evidence.narrow(all_needs(seq.policy.needs()));
    return {};
}

}  // namespace pith
