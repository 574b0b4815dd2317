// run_plan.cpp - budgets to entries, and the choice of schedule.
#include "schedule/run_plan.h"

#include <algorithm>
#include <cmath>
#include <string>

namespace pith {
namespace {

constexpr int kSmallestChunk = 16;
constexpr double kUsableMemory = 0.9;  // of what is left: a tenth stays for the rest of the system
constexpr double kWorthOneShot = 0.9;  // of the entries that chunks would leave

std::string mebibytes(double bytes) {
    return std::to_string(static_cast<int64_t>(std::ceil(bytes / (1 << 20)))) + " MiB";
}

// Entries per lane that fit in the bytes, both partly used pages of a lane counted.
int64_t entries_in(const RunRequest & request, double bytes) {
    const double per_lane = bytes / request.n_lanes - 2.0 * static_cast<double>(request.page_bytes);
    return static_cast<int64_t>(std::floor(per_lane / static_cast<double>(request.entry_bytes)));
}

// "auto" says what it came to.
std::string name_of_budget(const RunRequest & request) {
    const std::string bytes = request.budget.to_string();
    return request.is_auto ? "--budget auto, " + mebibytes(request.budget.value) + " of memory here," : "--budget " + bytes;
}

Status too_few_bytes(const RunRequest & request, const std::string & why, int64_t entries_needed) {
    const double need = request.n_lanes * (static_cast<double>(entries_needed) * static_cast<double>(request.entry_bytes) +
                                           2.0 * static_cast<double>(request.page_bytes));
    return {ErrorCode::kBudget,
            name_of_budget(request) + " is too small: " + why + " needs at least " + mebibytes(need) + " of KV cache"};
}

// One layer's KV of the whole prompt, and of what is read behind it.
double layer_bytes(const RunRequest & request) {
    const int64_t n_tokens = request.n_prompt + (request.taken_back ? request.n_question : 0);
    return request.n_kv_heads * (static_cast<double>(n_tokens) * static_cast<double>(request.entry_bytes) +
                                 2.0 * static_cast<double>(request.page_bytes));
}

// At its peak the first layer's whole KV stands beside nothing, the last one's beside all the others' budgets.
RunPlan one_shot_in_bytes(const RunRequest & request) {
    RunPlan plan{0, true, request.chunk, request.evict_every};
    // Questions that come later are read whole, each, before anything is evicted again.
    const int n_behind = std::max({request.evict_every, request.taken_back ? request.n_question : 0, 1});
    plan.budget = std::min(entries_in(request, request.budget.value - layer_bytes(request)),
                           entries_in(request, request.budget.value) - n_behind);
    return plan;
}

RunPlan chunks_in_bytes(const RunRequest & request) {
    const int64_t capacity = entries_in(request, request.budget.value);
    RunPlan plan{0, false, request.chunk, request.evict_every};
    // The headroom takes at most a third of what there is.
    const auto third = static_cast<int>(std::min<int64_t>(capacity / 3, 1 << 20));
    plan.chunk = std::min(request.chunk, std::max(third, kSmallestChunk));
    if (request.evict_every > 0) { plan.evict_every = std::min(request.evict_every, plan.chunk); }
    plan.n_guide = request.n_question <= plan.chunk ? request.n_question : 0;
    plan.budget = capacity - plan.chunk - plan.n_guide;
    return plan;
}

// Whether a one-shot prefill of `budget` entries a lane fits in the memory that is left.
bool fits_in_memory(const RunRequest & request, int64_t budget) {
    const auto n_all = static_cast<double>(request.n_prompt + (request.taken_back ? request.n_question : 0));
    const double states = n_all * static_cast<double>(request.state_bytes);
    const double reserved = n_all * request.n_lanes * static_cast<double>(request.entry_bytes);
    if (request.free_addresses > 0 && reserved + states > kUsableMemory * static_cast<double>(request.free_addresses)) {
        return false;
    }
    if (request.free_bytes == 0) { return true; }
    const double lanes =
        request.n_lanes * (static_cast<double>(std::min(budget, request.n_prompt)) * static_cast<double>(request.entry_bytes) +
                           2.0 * static_cast<double>(request.page_bytes));
    return layer_bytes(request) + lanes + states <= kUsableMemory * static_cast<double>(request.free_bytes);
}

Result<RunPlan> plan_bytes(const RunRequest & request) {
    const RunPlan whole = one_shot_in_bytes(request);
    if (request.prefill == PrefillSchedule::kOneShot || request.whole_prompt) {
        if (whole.budget >= 1) { return whole; }
        return Status(ErrorCode::kBudget, name_of_budget(request) + " is too small for a one-shot prefill: one layer's KV of " +
                                              std::to_string(request.n_prompt) + " tokens takes " +
                                              mebibytes(layer_bytes(request)) + "; raise the budget or use " +
                                              (request.whole_prompt ? "gates trained with --causal" : "--prefill chunked"));
    }
    const RunPlan chunks = chunks_in_bytes(request);
    // In one shot every layer is judged by the whole prompt's queries; worth it where the room for a whole layer costs little.
    const bool asks = request.prefill == PrefillSchedule::kAuto && request.n_question > 0;
    if (asks && static_cast<double>(whole.budget) >= kWorthOneShot * static_cast<double>(chunks.budget) && whole.budget >= 1 &&
        fits_in_memory(request, whole.budget)) {
        return whole;
    }
    if (chunks.budget >= 1) { return chunks; }
    const int headroom = chunks.chunk + chunks.n_guide;
    return too_few_bytes(request, "a chunk of " + std::to_string(headroom) + " tokens and one entry a lane", headroom + 1);
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
    if (request.is_auto && !request.evicts) {
        const int64_t capacity = entries_in(request, request.budget.value);
        if (request.n_prompt <= capacity) {
            const bool whole = request.prefill == PrefillSchedule::kOneShot || request.whole_prompt;
            return RunPlan{0, whole, request.chunk, 0, 0, capacity};
        }
        return {ErrorCode::kBudget, "--budget auto: the memory that is left holds " +
                                        std::to_string(std::max<int64_t>(capacity, 0)) + " tokens, the prompt has " +
                                        std::to_string(request.n_prompt) +
                                        ", and this policy keeps them all: choose one that evicts, e.g. --policy snapkv"};
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
    const bool chosen =
        request.prefill == PrefillSchedule::kAuto &&
        (request.n_prompt <= plan.budget + request.chunk || (request.n_question > 0 && fits_in_memory(request, plan.budget)));
    plan.one_shot = one_shot || chosen;
    plan.n_guide = !plan.one_shot && request.n_question <= plan.chunk ? request.n_question : 0;
    return plan;
}

}  // namespace pith
