// budget_check.cpp - what is protected, against what a budget gives.
#include "plan/budget_check.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "core/items.h"
#include "plan/lane_bytes.h"
#include "plan/protected_tokens.h"
#include "policy/auto_policy.h"
#include "policy/named_policy.h"

namespace pith {
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
    return {
        ErrorCode::kBudget,
        item::kBudget + " " + options.budget.to_string() + " gives " + std::to_string(budget) +
            " tokens per head, but policy " + found.policy + " protects " + std::to_string(found.sum()) + " (" + found.parts() +
            "): " + (enough ? "use " + item::kBudget + " " + std::to_string(*enough) + " or more, or " : "") + "protect less"};
}

// As the session plans with no more of the prompt than what is pinned; the real one will not need less.
Result<RunPlan> plan_of_bytes(const SessionOptions & options, const CacheLayout & layout) {
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
    put_lanes(layout, request);
    return plan_run(request);
}

}  // namespace

int64_t n_served(const SessionOptions & options, int64_t n_prompt) {
    return options.evict_every > 0 ? kAnyLength : n_prompt;
}

Status check_prompt(const SessionOptions & options, const Policy & policy, const Budget & budget, const RunPlan & plan,
                    int64_t n_prompt) {
    if (plan.budget == 0 || n_prompt <= plan.budget) { return {}; }
    const int64_t n_held = n_protected(policy, options.pinned, plan.budget, n_prompt);
    if (n_held <= plan.budget) { return {}; }
    const int n_recent = policy.n_recent(plan.budget);
    const auto end = static_cast<int32_t>(n_prompt);
    const std::optional<int64_t> least = least_budget(policy, options.pinned, n_served(options, n_prompt));
    int64_t n_pinned = 0;
    for (const PositionSpan & span : options.pinned) { n_pinned += std::min(span.end, end) - std::min(span.begin, end); }
    return {ErrorCode::kBudget,
            item::kBudget + " " + budget.to_string() + " gives " + std::to_string(plan.budget) +
                " tokens per head, but policy " + policy.name() + " protects " + std::to_string(n_held) + " of the prompt's " +
                std::to_string(n_prompt) + " (" + std::to_string(std::min<int64_t>(policy.n_sinks(), n_prompt)) + " sinks, " +
                std::to_string(std::min<int64_t>(n_recent, n_prompt)) + " recent, " + std::to_string(n_pinned) + " pinned): " +
                (least ? "use " + item::kBudget + " " + std::to_string(*least) + " or more, or " : "") + "protect less"};
}

Status check_protected(const SessionOptions & options) {
    if (options.budget.kind != BudgetKind::kEntries || options.evict_every == 0) { return {}; }
    return check_holds(options, static_cast<int64_t>(options.budget.value));
}

Status check_budget(const SessionOptions & options, const CacheLayout & layout, bool has_gates) {
    if (options.budget.kind != BudgetKind::kBytes || has_gates) { return check_protected(options); }
    return plan_of_bytes(options, layout).status();
}

}  // namespace pith
