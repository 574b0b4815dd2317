// info_budget.h - `pith info --budget`: what a budget holds of a text, before any is read.
#pragma once

#include <cstdint>

#include "cache/ragged_cache.h"
#include "common/base/ledger_report.h"
#include "pith/budget.h"
#include "pith/status.h"

namespace pith::app {

// Of a text of n_ctx tokens, at the default chunk and --evict-every.
// Errors: kInvalidArgument for 'auto'; those of plan_run (bytes that hold no chunk).
Result<Json> describe_budget(const CacheLayout & layout, const Budget & budget, int64_t n_ctx);
std::string budget_line(const Json & budget);

}  // namespace pith::app
