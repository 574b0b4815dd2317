// bench_policies.cpp - the table of what policies cost.
#include "app/bench/bench_policies.h"

#include <cstdio>

#include "common/base/errors.h"
#include "common/base/text_columns.h"
#include "common/bench/bench_measure.h"
#include "core/check.h"
#include "engine/probe/policy_cases.h"
#include "speed/policy_costs.h"

namespace pith::app {
namespace {

Result<PolicyCostOptions> cost_options(const ModelFlags & model, SessionFlags session, const BenchPoliciesFlags & flags) {
    PolicyCostOptions options;
    const bool with_importance = has_importance(session.heads, model.path, model.is_adapted());
    const GatePolicies gates = model.gate.empty() ? GatePolicies::kNone : GatePolicies::kScorer;
    PITH_ASSIGN_OR_RETURN(options.policies, policies_of_list(flags.policies, with_importance, gates));
    if (flags.policies == "all") {
        // Joint elimination is for chunks: over a long prompt it takes longer than the prefill. Asked for by name it is
        // measured.
        std::erase(options.policies, PolicyChoice("snapkv+joint"));
        options.policies.emplace_back("snapkv+critical:norm=2");  // the norm that costs little
    }
    if (!session.policy.empty()) {
        return {ErrorCode::kInvalidArgument, "--policy and --policies: give the policies to --policies"};
    }
    if (session.prefill == "chunked") {
        return {ErrorCode::kInvalidArgument, "--policies measures a one-shot prefill: leave out --prefill chunked"};
    }
    if (!session.budget) { session.budget = "1024"; }
    // One that evicts stands for the list.
    PITH_ASSIGN_OR_RETURN(options.session, session.options_with("snapkv", !model.gate.empty()));
    PITH_RETURN_IF_ERROR(check_at_least("--n-prompt", flags.n_prompt, 1));
    PITH_RETURN_IF_ERROR(check_at_least("--repetitions", flags.n_repetitions, 1));
    options.n_prompt = flags.n_prompt;
    options.n_repetitions = flags.n_repetitions;
    return options;
}

double milliseconds(double seconds) {
    return 1000 * seconds;
}

void print_costs(const PolicyCostOptions & options, const PolicyCosts & costs) {
    const int name = policy_width(costs.rows);
    std::printf("one-shot prefill of %d tokens: %.2f s; %lld tokens per head kept; medians of %d evictions of one prefill\n",
                options.n_prompt, costs.prefill_s, static_cast<long long>(costs.budget_entries), options.n_repetitions);
    if (costs.factors_s > 0) {
        std::printf("what is made of the output projection, once per model: %.0f ms, not counted below\n",
                    milliseconds(costs.factors_s));
    }
    std::printf("\n%-*s | %10s %11s %8s %11s | %8s | %s\n", name, "policy", "capture ms", "evidence ms", "plan ms",
                "compact ms", "share", "over its base");
    for (const PolicyCost & row : costs.rows) {
        if (!row.note.empty()) {
            std::printf("%-*s | %s\n", name, row.policy.c_str(), row.note.c_str());
            continue;
        }
        std::printf("%-*s | %10.1f %11.1f %8.1f %11.1f | %6.2f %%", name, row.policy.c_str(), milliseconds(row.capture_s),
                    milliseconds(row.evidence_s), milliseconds(row.plan_s), milliseconds(row.compact_s), 100 * row.share);
        if (!row.base.empty()) { std::printf(" | %+.2f %% %s", 100 * row.over_base, row.base.c_str()); }
        std::puts("");
    }
}

Json to_json(const std::string & model_path, const PolicyCostOptions & options, const PolicyCosts & costs) {
    Json object = measurement_json(model_path, options);
    object["budget"] = options.session.budget.to_string();
    object["budget_entries"] = costs.budget_entries;
    object["prefill_s"] = costs.prefill_s;
    object["factors_s"] = costs.factors_s;
    object["rows"] = Json::array();
    for (const PolicyCost & row : costs.rows) {
        Json out;
        out["policy"] = row.policy;
        if (!row.note.empty()) {
            out["note"] = row.note;
        } else {
            out["capture_s"] = row.capture_s;
            out["evidence_s"] = row.evidence_s;
            out["plan_s"] = row.plan_s;
            out["compact_s"] = row.compact_s;
            out["eviction_samples_s"] = row.eviction_s;
            out["share"] = row.share;
            out["base"] = row.base;
            out["over_base"] = row.over_base;
            out["evicted_entries"] = row.evicted_entries;
        }
        object["rows"].push_back(std::move(out));
    }
    return object;
}

}  // namespace

int bench_policies(const ModelFlags & model_flags, SessionFlags session, const BenchPoliciesFlags & flags) {
    const auto options = cost_options(model_flags, std::move(session), flags);
    if (!options.ok()) { return fail_usage(options.status()); }
    const auto costs = measure_on(model_flags, *options, measure_policy_costs);
    return show_measured(
        costs, flags.json, [&](const auto & all) { return to_json(model_flags.path, *options, all); },
        [&](const auto & all) { print_costs(*options, all); });
}

}  // namespace pith::app
