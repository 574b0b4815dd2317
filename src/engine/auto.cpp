// auto.cpp - what the policy `auto` becomes for a session, and what the ledger says of it. Stage: engine.
#include <utility>

#include "engine/session_impl.h"

namespace pith {

// The policy that evicts, where `auto` was asked for. Once before there is a prompt, so that a session always has one that can
// be asked what it needs, and once when the first prompt has come.
Status Session::Impl::settle_policy(AutoFacts facts) {
    if (!is_auto(seq.policy_asked)) { return {}; }
    facts.limited = seq.budget.kind != BudgetKind::kNone && !facts.roomy;
    facts.heads = known_heads;
    const AutoChoice choice = choose_policy(facts);
    PITH_ASSIGN_OR_RETURN(seq.policy, Policy::parse(choice.policy));
    seq.policy_reason = choice.reason;
    return {};
}

// Whether `auto` can do without evicting: the budget is what memory allows, and that holds the prompt and all that the model,
// or the session's context, takes.
bool Session::Impl::memory_holds_all(int64_t n_prompt) const {
    if (!is_auto(seq.policy_asked) || seq.budget.kind != BudgetKind::kAuto) { return false; }
    const int64_t context = options.max_context > 0 ? options.max_context : file->hparams().n_ctx_train;
    const auto all = Policy::parse("full");
    return all.ok() && make_plan(*all, seq.budget, PrefillSchedule::kAuto, std::max(n_prompt, context)).ok();
}

// What `auto` is for evict(): what the gates might have said comes too late.
AutoChoice Session::Impl::choice_of_eviction(const Budget & budget, bool in_sight) const {
    return choose_policy({.limited = budget.kind != BudgetKind::kNone,
                          .heads = known_heads,
                          .question = in_sight ? KnownQuestion::kInSight : KnownQuestion::kUnknown,
                          .may_reread = options.auto_may_reread});
}

Session::Impl::PolicyNames Session::Impl::policy_names(const SequenceState & state) const {
    const bool open = is_auto(state.policy_asked) && !state.plan;
    if (open) { return {std::string(kAutoPolicy), "chosen when the prompt comes", state.schedule}; }
    return {state.policy.name(), state.policy_reason, state.schedule};
}

void Session::Impl::tell_policy(PolicyNames names) const noexcept {
    ledger.policy = std::move(names.policy);
    ledger.policy_reason = std::move(names.reason);
    ledger.schedule = std::move(names.schedule);
}

}  // namespace pith
