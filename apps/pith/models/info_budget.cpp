// info_budget.cpp - a plan as a run would make it, and what its lanes take.
#include "app/models/info_budget.h"

#include <string>
#include <vector>

#include "core/text.h"
#include "plan/lane_bytes.h"
#include "plan/run_plan.h"

namespace pith::app {
namespace {

// All lanes at n entries, and what no policy governs while n_new tokens are on their way.
size_t kv_bytes(const CacheLayout & layout, int64_t n, int64_t n_new) {
    std::vector<int> lengths;
    for (int l = 0; l < layout.n_layers(); ++l) {
        lengths.insert(lengths.end(), static_cast<size_t>(layout.lanes(l).n_kv_heads),
                       layout.governs(l) ? static_cast<int>(n) : 0);
    }
    return page_bytes(layout, lengths) + ungoverned_bytes(layout, n_new);
}

}  // namespace

Result<Json> describe_budget(const CacheLayout & layout, const Budget & budget, int64_t n_ctx) {
    if (budget.kind == BudgetKind::kAuto) {
        return {
            ErrorCode::kInvalidArgument,
            "--budget is 'auto', which asks for this machine's memory when a prompt comes: give tokens (1024), a share of the "
            "text (20%) or bytes (512M)"};
    }
    RunRequest request;
    request.budget = budget;
    request.evicts = true;
    request.prefill = PrefillSchedule::kChunked;
    request.n_prompt = n_ctx;
    put_lanes(layout, request);
    PITH_ASSIGN_OR_RETURN(const RunPlan plan, plan_run(request));
    const int64_t n_kept = std::min(plan.budget_at(n_ctx), n_ctx);
    const int64_t n_most = std::min(plan.most_at(n_ctx), n_ctx);
    const int64_t n_heads = layout.shape.n_kv_heads;
    return Json{{"budget", budget.to_string()},
                {"n_entries", n_kept},
                {"kv_bytes", kv_bytes(layout, n_kept, 0)},
                {"most_entries", n_most},
                {"most_kv_bytes", kv_bytes(layout, n_most, plan.chunk)},
                {"chunk", plan.chunk},
                {"one_layer_bytes", static_cast<size_t>(n_ctx * n_heads) * layout.entry_bytes()}};
}

std::string budget_line(const Json & budget) {
    const auto entries = [&](const char * key) { return with_commas(budget[key].get<int64_t>()); };
    const auto bytes = [&](const char * key) { return bytes_text(budget[key].get<size_t>()); };
    return entries("n_entries") + " tokens a head, " + bytes("kv_bytes") + ", after an eviction; at most " +
           entries("most_entries") + ", " + bytes("most_kv_bytes") + ", while chunks of " + entries("chunk") +
           " are read; in one piece, " + bytes("one_layer_bytes") + " more for one layer of the text";
}

}  // namespace pith::app
