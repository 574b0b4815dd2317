// auto.cpp - what the policy `auto` becomes for a session, and what the ledger says of it. Stage: engine.
#include <utility>

#include "engine/model_parts.h"
#include "engine/session_impl.h"
#include "policy/named_policy.h"

namespace pith {

// The policy that evicts, where `auto` was asked for. Once before there is a prompt, so that a session always has one that can
// be asked what it needs, and once when the first prompt has come.
void Session::Impl::settle_policy(AutoFacts facts) {
    if (!seq.policy_asked.is_auto()) { return; }
    facts.limited = seq.budget.kind != BudgetKind::kNone && !facts.roomy;
    facts.heads = known_heads;
    AutoChoice choice = choose_policy(facts);
    seq.policy = std::move(choice.policy);
    seq.policy_reason = std::move(choice.reason);
}

// Whether `auto` can do without evicting: the budget is what memory allows, and that holds the prompt and all that the model,
// or the session's context, takes.
bool Session::Impl::memory_holds_all(int64_t n_prompt) const {
    if (!seq.policy_asked.is_auto() || seq.budget.kind != BudgetKind::kAuto) { return false; }
    const int64_t context = options.max_context > 0 ? options.max_context : file->hparams().n_ctx_train;
    return make_plan(policy_that_keeps_all(), seq.budget, PrefillSchedule::kAuto, std::max(n_prompt, context)).ok();
}

// The policy to evict by. For `auto`: gates that evict come too late, those that rank have their word if
// they were asked.
Result<AutoChoice> Session::Impl::choice_of_eviction(const PolicyChoice & asked, const Budget & budget, bool in_sight) const {
    if (!asked.is_auto()) {
        PITH_ASSIGN_OR_RETURN(Policy named, named_policy(asked));
        return AutoChoice{std::move(named), ""};
    }
    const bool ranked = gates && known_gates(&gates->gate()) == KnownGates::kRank && seq.evidence.wants_retention();
    return choose_policy({.limited = budget.kind != BudgetKind::kNone,
                          .gates = ranked ? KnownGates::kRank : KnownGates::kNone,
                          .heads = known_heads,
                          .question = in_sight ? KnownQuestion::kInSight : KnownQuestion::kUnknown,
                          .may_reread = options.auto_may_reread});
}

Session::Impl::PolicyNames Session::Impl::policy_names(const SequenceState & state) const {
    const bool open = state.policy_asked.is_auto() && !state.plan;
    if (open) { return {std::string(kAutoPolicy), "chosen when the prompt comes", state.schedule}; }
    return {state.policy.name(), state.policy_reason, state.schedule};
}

void Session::Impl::tell_policy(PolicyNames names) const noexcept {
    ledger.policy = std::move(names.policy);
    ledger.policy_reason = std::move(names.reason);
    ledger.schedule = std::move(names.schedule);
}

}  // namespace pith
