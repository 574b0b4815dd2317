// run_plan.cpp - budgets to entries, and the choice of schedule.
#include "schedule/run_plan.h"

#include <algorithm>
#include <cmath>
#include <string>

namespace pith {
namespace {

constexpr int kSmallestChunk = 16;

std::string mebibytes(double bytes) {
    return std::to_string(static_cast<int64_t>(std::ceil(bytes / (1 << 20)))) + " MiB";
}

// Entries per lane that fit in the bytes, both partly used pages of a lane counted.
int64_t entries_in(const RunRequest & request, double bytes) {
    const double per_lane = bytes / request.n_lanes - 2.0 * static_cast<double>(request.page_bytes);
    return static_cast<int64_t>(std::floor(per_lane / static_cast<double>(request.entry_bytes)));
}

Status too_few_bytes(const RunRequest & request, const std::string & why, int64_t entries_needed) {
    const double need = request.n_lanes * (static_cast<double>(entries_needed) * static_cast<double>(request.entry_bytes) +
                                           2.0 * static_cast<double>(request.page_bytes));
    return {ErrorCode::kBudget, "--budget " + request.budget.to_string() + " is too small: " + why + " needs at least " +
                                    mebibytes(need) + " of KV cache"};
}

Result<RunPlan> plan_bytes(const RunRequest & request) {
    const int64_t capacity = entries_in(request, request.budget.value);
    RunPlan plan{0, false, request.chunk, request.evict_every};
    if (request.prefill == PrefillSchedule::kOneShot || request.whole_prompt) {
        // At its peak the first layer's whole KV stands beside nothing, the last one's beside all the others' budgets.
        const double layer_bytes =
            request.n_kv_heads * (static_cast<double>(request.n_prompt) * static_cast<double>(request.entry_bytes) +
                                  2.0 * static_cast<double>(request.page_bytes));
        plan.one_shot = true;
        plan.budget =
            std::min(entries_in(request, request.budget.value - layer_bytes), capacity - std::max(request.evict_every, 1));
        if (plan.budget >= 1) { return plan; }
        return Status(ErrorCode::kBudget, "--budget " + request.budget.to_string() +
                                              " is too small for a one-shot prefill: one layer's KV of " +
                                              std::to_string(request.n_prompt) + " tokens takes " + mebibytes(layer_bytes) +
                                              "; raise the budget or use " +
                                              (request.whole_prompt ? "gates trained with --causal" : "--prefill chunked"));
    }
    // The headroom takes at most a third of what there is.
    const auto third = static_cast<int>(std::min<int64_t>(capacity / 3, 1 << 20));
    plan.chunk = std::min(request.chunk, std::max(third, kSmallestChunk));
    if (request.evict_every > 0) { plan.evict_every = std::min(request.evict_every, plan.chunk); }
    plan.budget = capacity - plan.chunk;
    if (plan.budget >= 1) { return plan; }
    return too_few_bytes(request, "a chunk of " + std::to_string(plan.chunk) + " tokens and one entry a lane", plan.chunk + 1);
}

}  // namespace

Result<RunPlan> plan_run(const RunRequest & request) {
    if (request.chunk < 1) {
        return {ErrorCode::kInvalidArgument, "--chunk " + std::to_string(request.chunk) + ": must be at least 1"};
    }
    if (request.evict_every < 0) {
        return {ErrorCode::kInvalidArgument,
                "--evict-every " + std::to_string(request.evict_every) + ": must be 0 (never in decode) or more"};
    }
    if (request.whole_prompt && request.prefill == PrefillSchedule::kChunked) {
        return {
            ErrorCode::kInvalidArgument,
            "--prefill chunked: these gates decide on an entry when they have seen the whole prompt, so it cannot be read in "
            "chunks: leave --prefill out, or train gates with --causal"};
    }
    const bool limited = request.budget.kind != BudgetKind::kNone;
    if (limited && !request.evicts) {
        const char * all = request.gated ? "policy gated keeps every entry that the gates keep, so --budget "
                                         : "policy full keeps every entry, so --budget ";
        return {ErrorCode::kInvalidArgument, all + request.budget.to_string() + " cannot hold: choose another --policy" +
                                                 (request.gated ? ", e.g. gated+snapkv" : "") + ", or leave the budget out"};
    }
    if (!limited && request.evicts) {
        return {ErrorCode::kInvalidArgument,
                "this policy evicts, but no budget was given: add --budget (entries, 20%, or 512M)"};
    }
    const bool one_shot = request.prefill == PrefillSchedule::kOneShot || request.whole_prompt;
    if (!limited) { return RunPlan{0, one_shot, request.chunk, 0}; }
    if (request.budget.kind == BudgetKind::kBytes) { return plan_bytes(request); }

    RunPlan plan{static_cast<int64_t>(request.budget.value), false, request.chunk, request.evict_every};
    if (request.budget.kind == BudgetKind::kPercent) {
        plan.budget = std::max<int64_t>(1, std::llround(static_cast<double>(request.n_prompt) * request.budget.value / 100.0));
    }
    plan.one_shot = one_shot || (request.prefill == PrefillSchedule::kAuto && request.n_prompt <= plan.budget + request.chunk);
    return plan;
}

}  // namespace pith
