// bench.cpp - interleaves the measurements and gathers them into rows. Stage: bench.
#include "bench/bench.h"

#include <algorithm>
#include <utility>

#include "bench/bench_case.h"
#include "core/check.h"
#include "policy/auto_policy.h"
#include "policy/policy.h"
#include "statistics/median.h"

namespace pith {
namespace {

struct CaseRow {
    BenchCase bench_case;
    BenchRow row;
    std::vector<double> prefill_ratios;
    std::vector<double> decode_ratios;
};

void append(std::vector<double> & all, const std::vector<double> & more) {
    all.insert(all.end(), more.begin(), more.end());
}

void add_ratio(std::vector<double> & ratios, const std::vector<double> & ours, const std::vector<double> & theirs) {
    if (median(theirs) > 0 && !ours.empty()) { ratios.push_back(median(ours) / median(theirs)); }
}

// Adds what was measured last to what is there; sizes keep the largest.
void gather(BenchMeasurement & all, const BenchMeasurement & one) {
    std::vector<double> prefill = std::move(all.prefill_tps);
    std::vector<double> decode = std::move(all.decode_tps);
    append(prefill, one.prefill_tps);
    append(decode, one.decode_tps);
    const size_t rss = std::max(all.rss_peak_bytes, one.rss_peak_bytes);
    all = one;
    all.prefill_tps = std::move(prefill);
    all.decode_tps = std::move(decode);
    all.rss_peak_bytes = rss;
}

Result<std::vector<CaseRow>> make_rows(const BenchOptions & options) {
    std::vector<CaseRow> rows;
    for (const int64_t depth : options.depths) {
        for (const std::string & name : options.policies) {
            const bool limited = options.session.budget.kind != BudgetKind::kNone;
            PITH_ASSIGN_OR_RETURN(const Policy policy, policy_of(name, {.limited = limited}));
            const bool evicts = policy.evicts();
            CaseRow row;
            row.bench_case = {depth, name, evicts};
            row.row.depth = depth;
            row.row.policy = name;
            row.row.budget = evicts ? options.session.budget.to_string() : "";
            rows.push_back(std::move(row));
        }
    }
    return rows;
}

void tell(const BenchOptions & options, int round, int n_rounds, const std::string & who, int64_t depth) {
    if (!options.progress) { return; }
    options.progress(who + " at depth " + std::to_string(depth) + ", round " + std::to_string(round + 1) + " of " +
                     std::to_string(n_rounds));
}

// One round: every case once, and llama-bench once for each depth.
Status measure_round(const BenchOptions & options, std::vector<CaseRow> & rows, int round, int n_rounds, int n_repetitions) {
    for (const int64_t depth : options.depths) {
        BenchMeasurement llama;
        if (!options.llama.command.empty()) {
            tell(options, round, n_rounds, "llama.cpp", depth);
            PITH_ASSIGN_OR_RETURN(llama, measure_llama(options, depth, n_repetitions));
        }
        for (CaseRow & row : rows) {
            if (row.row.depth != depth) { continue; }
            tell(options, round, n_rounds, row.row.policy, depth);
            PITH_ASSIGN_OR_RETURN(const BenchMeasurement pith, measure_pith(options, row.bench_case, n_repetitions));
            gather(row.row.pith, pith);
            gather(row.row.llama, llama);
            add_ratio(row.prefill_ratios, pith.prefill_tps, llama.prefill_tps);
            add_ratio(row.decode_ratios, pith.decode_tps, llama.decode_tps);
            const double overhead = pith.evidence_s + pith.plan_s + pith.compact_s;
            if (pith.prefill_s > 0) { row.row.scoring_shares.push_back(overhead / pith.prefill_s); }
        }
    }
    return {};
}

Status check(const BenchOptions & options) {
    PITH_RETURN_IF_ERROR(check_at_least("--n-prompt", options.n_prompt, 0));
    PITH_RETURN_IF_ERROR(check_at_least("--n-predict", options.n_generate, 0));
    if (options.n_prompt == 0 && options.n_generate == 0) {
        return {ErrorCode::kInvalidArgument, "--n-prompt and --n-predict is 0: give one of them"};
    }
    PITH_RETURN_IF_ERROR(check_at_least("--repetitions", options.n_repetitions, 1));
    for (const int64_t depth : options.depths) { PITH_RETURN_IF_ERROR(check_at_least("--depth", depth, 0)); }
    return {};
}

}  // namespace

Result<std::vector<BenchRow>> run_bench(const BenchOptions & options) {
    PITH_RETURN_IF_ERROR(check(options));
    PITH_ASSIGN_OR_RETURN(std::vector<CaseRow> rows, make_rows(options));
    const int n_rounds = options.interleave ? options.n_repetitions : 1;
    const int n_repetitions = options.interleave ? 1 : options.n_repetitions;
    for (int round = 0; round < n_rounds; ++round) {
        PITH_RETURN_IF_ERROR(measure_round(options, rows, round, n_rounds, n_repetitions));
    }
    std::vector<BenchRow> out;
    for (CaseRow & row : rows) {
        row.row.prefill_ratio = median(row.prefill_ratios);
        row.row.decode_ratio = median(row.decode_ratios);
        row.row.scoring_share = median(row.row.scoring_shares);
        out.push_back(std::move(row.row));
    }
    return out;
}

}  // namespace pith
