// bench.cpp - interleaves the measurements and gathers them into rows. Stage: probe.
#include "engine/probe/bench.h"

#include <algorithm>
#include <utility>

#include "core/check.h"
#include "core/items.h"
#include "core/median.h"
#include "engine/probe/bench_case.h"
#include "policy/auto_policy.h"
#include "policy/policy.h"

namespace pith {
namespace {

struct CaseRow {
    BenchCase bench_case;
    BenchOptions options;  // of this row alone
    size_t point = 0;      // llama-bench measures once for all rows of a point
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

template <class T>
std::vector<T> values(const std::vector<T> & list, T one) {
    return list.empty() ? std::vector<T>{one} : list;
}

// What llama-bench is told of, too: every combination of it, the last one here varying fastest.
std::vector<BenchOptions> make_points(const BenchOptions & options) {
    std::vector<BenchOptions> points = {options};
    const auto vary = [&points](const auto & list, const auto & set) {
        std::vector<BenchOptions> all;
        for (const BenchOptions & point : points) {
            for (const auto value : list) { set(all.emplace_back(point), value); }
        }
        points = std::move(all);
    };
    const BenchLists & lists = options.lists;
    vary(values(lists.threads, options.session.n_threads), [](auto & point, int n) { point.session.n_threads = n; });
    vary(values(lists.types_k, options.session.type_k), [](auto & point, KvType type) { point.session.type_k = type; });
    vary(values(lists.types_v, options.session.type_v), [](auto & point, KvType type) { point.session.type_v = type; });
    vary(options.depths, [](auto & point, int64_t depth) { point.depths = {depth}; });
    vary(values(lists.prompts, options.n_prompt), [](auto & point, int n) { point.n_prompt = n; });
    vary(values(lists.generates, options.n_generate), [](auto & point, int n) { point.n_generate = n; });
    return points;
}

CaseRow make_row(const BenchOptions & options, const PolicyChoice & policy, bool evicts) {
    CaseRow row;
    row.options = options;
    row.bench_case = {options.depths.front(), policy, evicts};
    row.row.depth = options.depths.front();
    row.row.n_prompt = options.n_prompt;
    row.row.n_generate = options.n_generate;
    row.row.n_threads = options.session.n_threads;
    row.row.type_k = options.session.type_k;
    row.row.type_v = options.session.type_v;
    row.row.chunk = options.session.chunk;
    row.row.policy = policy.name();
    row.row.budget = evicts ? options.session.budget.to_string() : "";
    return row;
}

Result<std::vector<CaseRow>> make_rows(const BenchOptions & options) {
    std::vector<CaseRow> rows;
    size_t n_points = 0;
    for (BenchOptions point : make_points(options)) {
        for (const int chunk : values(options.lists.chunks, options.session.chunk)) {
            point.session.chunk = chunk;
            for (const PolicyChoice & choice : options.policies) {
                for (const Budget & budget : values(options.lists.budgets, options.session.budget)) {
                    const bool limited = budget.kind != BudgetKind::kNone;
                    PITH_ASSIGN_OR_RETURN(const Policy policy, policy_of(choice, {.limited = limited}));
                    point.session.budget = budget;
                    rows.push_back(make_row(point, choice, policy.evicts()));
                    rows.back().point = n_points;
                    if (!policy.evicts()) { break; }  // the same under every budget
                }
            }
        }
        ++n_points;
    }
    return rows;
}

// "snapkv at depth 4096, prompt 512, generate 32, round 2 of 5"
void tell(const BenchOptions & options, int round, int n_rounds, const std::string & who, const BenchRow & row) {
    if (!options.progress) { return; }
    options.progress(who + " at depth " + std::to_string(row.depth) + ", prompt " + std::to_string(row.n_prompt) +
                     ", generate " + std::to_string(row.n_generate) + ", round " + std::to_string(round + 1) + " of " +
                     std::to_string(n_rounds));
}

// One round: every case once, and llama-bench once for each point.
Status measure_round(const BenchOptions & options, std::vector<CaseRow> & rows, int round, int n_rounds, int n_repetitions) {
    BenchMeasurement llama;
    for (size_t i = 0; i < rows.size(); ++i) {
        CaseRow & row = rows[i];
        const bool is_new_point = i == 0 || rows[i - 1].point != row.point;
        if (is_new_point && !options.llama.command.empty()) {
            tell(options, round, n_rounds, "llama.cpp", row.row);
            PITH_ASSIGN_OR_RETURN(llama, measure_llama(row.options, row.row.depth, n_repetitions));
        }
        tell(options, round, n_rounds, row.row.policy, row.row);
        PITH_ASSIGN_OR_RETURN(const BenchMeasurement pith, measure_pith(row.options, row.bench_case, n_repetitions));
        gather(row.row.pith, pith);
        gather(row.row.llama, llama);
        add_ratio(row.prefill_ratios, pith.prefill_tps, llama.prefill_tps);
        add_ratio(row.decode_ratios, pith.decode_tps, llama.decode_tps);
        const double overhead = pith.evidence_s + pith.plan_s + pith.compact_s;
        if (pith.prefill_s > 0) { row.row.scoring_shares.push_back(overhead / pith.prefill_s); }
    }
    return {};
}

Status check(const BenchOptions & options) {
    PITH_RETURN_IF_ERROR(check_at_least(item::kRepetitions, options.n_repetitions, 1));
    for (const BenchOptions & point : make_points(options)) {
        PITH_RETURN_IF_ERROR(check_at_least(item::kPromptTokens, point.n_prompt, 0));
        PITH_RETURN_IF_ERROR(check_at_least(item::kNewTokens, point.n_generate, 0));
        if (point.n_prompt == 0 && point.n_generate == 0) {
            return {ErrorCode::kInvalidArgument,
                    item::kPromptTokens + " and " + item::kNewTokens + " are both 0: give one of them"};
        }
        PITH_RETURN_IF_ERROR(check_at_least(item::kDepths, point.depths.front(), 0));
        PITH_RETURN_IF_ERROR(check_at_least(item::kThreads, point.session.n_threads, 0));
    }
    for (const int chunk : options.lists.chunks) { PITH_RETURN_IF_ERROR(check_at_least(item::kChunk, chunk, 1)); }
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
