// budget_check.h - budgets that cannot hold what a policy protects, found out before anything is read. Stage: set-up.
//
// Protected are sinks, recent tokens, and what SessionOptions::pinned says.   Errors of all: kBudget, with what would do.
#pragma once

#include <cstdint>

#include "cache/ragged_cache.h"
#include "pith/session.h"
#include "plan/run_plan.h"
#include "policy/policy.h"

namespace pith {

// What a budget must serve: a prompt that fits whole needs no more than itself, unless its answer is evicted, too.
int64_t n_served(const SessionOptions & options, int64_t n_prompt);

// Of a prompt that is there, and its plan.
Status check_prompt(const SessionOptions & options, const Policy & policy, const Budget & budget, const RunPlan & plan,
                    int64_t n_prompt);

// Before there is a prompt: a budget in entries must hold it however short that will be, since an answer grows. Of what `auto`
// may become, that counts which protects least. Needs no model.
Status check_protected(const SessionOptions & options);

// The same, also of budgets in bytes, which must hold a chunk beside it. Of bytes for a model with gates, of shares and of
// `auto` nothing is known before the prompt.
Status check_budget(const SessionOptions & options, const CacheLayout & layout, bool has_gates);

}  // namespace pith
