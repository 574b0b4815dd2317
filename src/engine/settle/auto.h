// auto.h - what the policy `auto` becomes for a session, and what the ledger says of it. Stage: engine.
#pragma once

#include <string>

#include "engine/pass/live_session.h"
#include "policy/auto_policy.h"

namespace pith {

// The policy that evicts, where `auto` was asked for: once before there is a prompt, so that a session always has one that can
// be asked what it needs, and once when the first prompt has come. facts: but for the budget and the heads.
void settle_policy(SequenceState & state, KnownHeads heads, AutoFacts facts);

// The policy to evict by. For `auto`: gates that evict come too late; those that rank count where they were asked.
Result<AutoChoice> choice_of_eviction(const LiveSession & session, const PolicyChoice & asked, const Budget & budget,
                                      bool in_sight);

struct PolicyNames {
    std::string policy;
    std::string reason;
    std::string schedule;
};
PolicyNames policy_names(const SequenceState & state);
void tell_policy(PolicyNames names, Ledger & ledger) noexcept;  // made beforehand, where nothing may fail any more

}  // namespace pith
