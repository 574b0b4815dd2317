// auto.cpp - the facts that `auto` is chosen by, and names. Stage: engine.
#include "engine/settle/auto.h"

#include <utility>

#include "policy/named_policy.h"

namespace pith {

void settle_policy(SequenceState & state, KnownHeads heads, AutoFacts facts) {
    if (!state.policy_asked.is_auto()) { return; }
    facts.limited = state.budget.kind != BudgetKind::kNone && !facts.roomy;
    facts.heads = heads;
    AutoChoice choice = choose_policy(facts);
    state.policy = std::move(choice.policy);
    state.policy_reason = std::move(choice.reason);
}

Result<AutoChoice> choice_of_eviction(const LiveSession & session, const PolicyChoice & asked, const Budget & budget,
                                      bool in_sight) {
    if (!asked.is_auto()) {
        PITH_ASSIGN_OR_RETURN(Policy named, named_policy(asked));
        return AutoChoice{std::move(named), ""};
    }
    const bool ranked = known_gates(session) == KnownGates::kRank && session.seq.evidence.wants_retention();
    return choose_policy({.limited = budget.kind != BudgetKind::kNone,
                          .gates = ranked ? KnownGates::kRank : KnownGates::kNone,
                          .heads = session.known_heads,
                          .question = in_sight ? KnownQuestion::kInSight : KnownQuestion::kUnknown,
                          .may_reread = session.options.auto_may_reread});
}

PolicyNames policy_names(const SequenceState & state) {
    const bool open = state.policy_asked.is_auto() && !state.plan;
    if (open) { return {std::string(kAutoPolicy), "chosen when the prompt comes", state.schedule}; }
    return {state.policy.name(), state.policy_reason, state.schedule};
}

void tell_policy(PolicyNames names, Ledger & ledger) noexcept {
    ledger.policy = std::move(names.policy);
    ledger.policy_reason = std::move(names.reason);
    ledger.schedule = std::move(names.schedule);
}

}  // namespace pith
