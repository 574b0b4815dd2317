// second_stage.cpp - the policy that follows, and its eviction.
#include "engine/evict/second_stage.h"

#include <utility>

#include "core/guarded.h"
#include "engine/evict/evict.h"
#include "engine/evict/evict_as.h"
#include "engine/evict/observers.h"
#include "engine/pass/session_ledger.h"
#include "engine/settle/auto.h"
#include "engine/settle/session_plan.h"
#include "plan/budget_check.h"

namespace pith {
namespace {

// REQUIRES: the questions observe.
Status evict_in_their_sight(LiveSession & session, const PolicyChoice & asked, const Budget & budget) {
    Sequence & seq = session.seq;
    PITH_RETURN_IF_ERROR(budget.check());
    PITH_ASSIGN_OR_RETURN(AutoChoice choice, choice_of_eviction(session, asked, budget, /*in_sight=*/true));
    Policy & next = choice.policy;
    PITH_RETURN_IF_ERROR(check_follows(session, next));
    if (next.needs_gate()) {
        return {ErrorCode::kInvalidArgument, "policy '" + next.name() +
                                                 "' asks the model's gates, which questions that come "
                                                 "later have no part in: choose another for them"};
    }
    // Its lanes are there: what is left to plan is as in a prompt that goes on in chunks.
    PITH_ASSIGN_OR_RETURN(RunPlan plan, make_plan(session, next, budget, PrefillSchedule::kChunked, seq.n_tokens));
    PITH_RETURN_IF_ERROR(check_prompt(session.options, next, budget, plan, seq.n_tokens));
    seq.policy = std::move(next);
    seq.policy_asked = asked;
    seq.policy_reason = std::move(choice.reason);
    seq.budget = budget;
    seq.plan = plan;
    if (!seq.evicts()) { return {}; }
    if (!seq.evidence.widen(needs_in_sight(seq.policy, session.observers))) {
        return {ErrorCode::kMissingEvidence,
                "policy '" + seq.policy.name() +
                    "' asks what all queries paid, for attention within blocks, for norms of keys or "
                    "for a second reading, and this session did not keep that: name the policy "
                    "when the session is made, or take one that looks at the last queries"};
    }
    PITH_RETURN_IF_ERROR(evict_in_sight_of(session, session.observers));
    seq.evidence.narrow(all_needs(session, seq.policy.needs()));
    seq.looked_for.reset();
    return {};
}

}  // namespace

Status evict_for(LiveSession & session, std::span<const int32_t> questions, const PolicyChoice & asked, const Budget & budget) {
    if (questions.empty()) {
        return {ErrorCode::kInvalidArgument, "evict_for_questions() was given no questions: evict() evicts without"};
    }
    PITH_RETURN_IF_ERROR(check_tokens(*session.file, questions));
    Observing observing(session, questions);
    if (session.observers.empty()) {
        return {ErrorCode::kInvalidArgument,
                "the model's gates are asked what to keep: questions that come later cannot be in their sight"};
    }
    Sequence & seq = session.seq;
    Ledger before = session.ledger;
    const Status status = guarded([&]() -> Status {
        seq.begin(Sequence::Reach::kAll);
        PITH_RETURN_IF_ERROR(evict_in_their_sight(session, asked, budget));
        tell_policy(policy_names(seq), session.ledger);
        return {};
    });
    observing.end();
    if (status.ok()) {
        see_evidence_peak(session);
        seq.commit();
        tell_budget(session);
    } else {
        update_ledger(session);  // peaks, while they can be seen
        seq.rollback();
        forget_call(session, std::move(before));
    }
    return status;
}

}  // namespace pith
