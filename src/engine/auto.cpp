// auto.cpp - what the policy `auto` becomes for a session, and what the ledger says of it. Stage: engine.
#include "engine/session_impl.h"

namespace pith {

// The policy that evicts, where `auto` was asked for. Once before there is a prompt, so that a session always has one that can
// be asked what it needs, and once when the first prompt has come.
Status Session::Impl::settle_policy(KnownQuestion question, bool has_gates) {
    if (!is_auto(options.policy)) { return {}; }
    const bool limited = options.budget.kind != BudgetKind::kNone;
    const AutoChoice choice = choose_policy({limited, has_gates, known_heads, question});
    PITH_ASSIGN_OR_RETURN(policy, Policy::parse(choice.policy));
    policy_reason = choice.reason;
    return {};
}

// What `auto` is for evict(): what the gates might have said comes too late.
AutoChoice Session::Impl::choice_of_eviction(const Budget & budget) const {
    const bool in_sight = question_end > 0 && question_end == n_tokens;
    return choose_policy({budget.kind != BudgetKind::kNone, /*has_gates=*/false, known_heads,
                          in_sight ? KnownQuestion::kInSight : KnownQuestion::kUnknown});
}

void Session::Impl::tell_policy() const {
    const bool open = is_auto(options.policy) && !plan;
    ledger.policy = open ? std::string(kAutoPolicy) : policy.name();
    ledger.policy_reason = open ? "chosen when the prompt comes" : policy_reason;
}

}  // namespace pith
