// budget_check.cpp - what is protected, against what a budget gives.
#include "app/run/budget_check.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "cache/page_memory.h"
#include "cache/ragged_cache.h"
#include "engine/cache_layout.h"
#include "engine/model_parts.h"
#include "plan/protected_tokens.h"
#include "plan/run_plan.h"
#include "policy/auto_policy.h"
#include "policy/named_policy.h"
#include "policy/policy.h"

namespace pith::app {
namespace {

// What one policy protects under a budget of entries.
struct Protection {
    std::string policy;
    int64_t n_sinks = 0;
    int64_t n_recent = 0;
    int64_t n_pinned = 0;
    int64_t n_first = 0;  // sinks and pinned tokens, those that are both counted once

    int64_t sum() const { return n_first + n_recent; }
    std::string parts() const {
        return std::to_string(n_sinks) + " sinks, " + std::to_string(n_recent) + " recent" +
               (n_pinned > 0 ? ", " + std::to_string(n_pinned) + " pinned" : "");
    }
};

Protection protection_of(const Policy & policy, const std::vector<PositionSpan> & pinned, int64_t budget) {
    std::vector<PositionSpan> first = pinned;
    first.push_back({0, policy.n_sinks()});
    return Protection{policy.name(), policy.n_sinks(), policy.n_recent(budget), n_covered(pinned), n_covered(first)};
}

// Of what `auto` may become, that which protects least: nothing else can be chosen with certainty yet.
Result<Protection> protection(const SessionOptions & options, int64_t budget) {
    if (!options.policy.is_auto()) {
        PITH_ASSIGN_OR_RETURN(const Policy policy, named_policy(options.policy));
        return protection_of(policy, options.pinned, budget);
    }
    std::optional<Protection> least;
    for (const Policy & policy : auto_candidates(options.auto_may_reread)) {
        const Protection one = protection_of(policy, options.pinned, budget);
        if (!least || one.sum() < least->sum()) { least = one; }
    }
    return *least;
}

// The entries that would do. Nothing: no number would.
Result<std::optional<int64_t>> enough_entries(const SessionOptions & options) {
    if (!options.policy.is_auto()) {
        PITH_ASSIGN_OR_RETURN(const Policy policy, named_policy(options.policy));
        return least_budget(policy, options.pinned);
    }
    std::optional<int64_t> least;
    for (const Policy & policy : auto_candidates(options.auto_may_reread)) {
        const std::optional<int64_t> one = least_budget(policy, options.pinned);
        if (one && (!least || *one < *least)) { least = one; }
    }
    return least;
}

Status check_holds(const SessionOptions & options, int64_t budget) {
    PITH_ASSIGN_OR_RETURN(const Protection found, protection(options, budget));
    if (found.sum() <= budget) { return {}; }
    PITH_ASSIGN_OR_RETURN(const std::optional<int64_t> enough, enough_entries(options));
    return {ErrorCode::kBudget,
            "--budget " + options.budget.to_string() + " gives " + std::to_string(budget) + " tokens per head, but policy " +
                found.policy + " protects " + std::to_string(found.sum()) + " (" + found.parts() +
                "): " + (enough ? "use --budget " + std::to_string(*enough) + " or more, or " : "") + "protect less"};
}

// As the session plans with no more of the prompt than what is pinned; the real one will not need less.
Result<RunPlan> plan_of_bytes(const Model & model, const SessionOptions & options) {
    const CacheLayout layout = cache_layout(file_of(model), options.type_k, options.type_v);
    RunRequest request;
    request.budget = options.budget;
    request.evicts = true;
    request.prefill = options.prefill;
    request.chunk = options.chunk;
    request.evict_every = options.evict_every;
    request.grid = options.grid;
    request.n_prompt = std::max<int64_t>(1, n_covered(options.pinned));
    if (options.evict_every > 0) {
        PITH_ASSIGN_OR_RETURN(const std::optional<int64_t> least, enough_entries(options));
        request.n_protected = least.value_or(1);
    }
    request.n_lanes = layout.shape.n_lanes();
    request.n_kv_heads = layout.shape.n_kv_heads;
    request.entry_bytes = layout.entry_bytes();
    request.page_bytes = page_size_bytes();
    request.ungoverned_bytes = [&layout](int64_t n_new) { return ungoverned_bytes(layout, n_new); };
    return plan_run(request);
}

}  // namespace

Status check_protected(const SessionOptions & options) {
    if (options.budget.kind != BudgetKind::kEntries || options.evict_every == 0) { return {}; }
    return check_holds(options, static_cast<int64_t>(options.budget.value));
}

Status check_budget(const Model & model, const SessionOptions & options) {
    if (options.budget.kind != BudgetKind::kBytes || model.info().has_gates) { return check_protected(options); }
    return plan_of_bytes(model, options).status();
}

}  // namespace pith::app
