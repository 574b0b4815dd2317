// budget_check.h - budgets that cannot work, found out before anything is read.
#pragma once

#include "pith/model.h"
#include "pith/session.h"

namespace pith::app {

// What the policy protects (sinks, recent tokens, options.pinned) must fit the entries asked for, however short the prompt: an
// answer grows. Needs no model; the session looks again when the prompt is there.   Errors: kBudget.
Status check_protected(const SessionOptions & options);

// The same, also of budgets in bytes, which must hold a chunk beside it. Of bytes for a model with gates, of shares and of
// `auto` nothing is known before the prompt.   Errors: kBudget.
Status check_budget(const Model & model, const SessionOptions & options);

}  // namespace pith::app
