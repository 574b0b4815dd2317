// bench_crowd.cpp - `pith bench --crowd`: many chats in one process, as a table or as JSON.
#include "speed/bench_crowd.h"

#include <cstdio>

#include "app/bench/bench_modes.h"
#include "common/bench/bench_measure.h"
#include "core/text.h"

namespace pith::app {
namespace {

// The ledger over the system's count.
double ratio(const CrowdReport & report) {
    const auto anonymous = static_cast<double>(report.resident.anonymous);
    return anonymous > 0 ? static_cast<double>(report.ledger_bytes()) / anonymous : 0;
}

void print_report(const CrowdOptions & options, const CrowdReport & report) {
    const EngineLedger & ledger = report.ledger;
    const auto line = [](const char * name, size_t bytes, const char * note = "") {
        std::printf("  %-12s %10s%s%s\n", name, bytes_text(bytes).c_str(), *note == '\0' ? "" : "  ", note);
    };
    std::printf("%d chats behind %s tokens that all share, %s of their own, policy %s, budget %s; all of them live\n\n",
                options.n_chats, with_commas(options.n_prefix).c_str(), with_commas(options.n_tail).c_str(),
                options.policies.front().name().c_str(),
                options.session.budget.kind == BudgetKind::kNone ? "all" : options.session.budget.to_string().c_str());
    std::printf("tokens per second: prefix %.1f, the chats' own %.1f, answers %.1f\n", report.prefix_tps, report.tail_tps,
                report.decode_tps);
    if (report.n_forks > 0) {
        std::printf("%d forks before any token: K/V grown by %.2f %%\n", report.n_forks, 100 * report.fork_growth);
    }
    if (options.n_long > 0) {
        std::printf(
            "beside a prompt of %s tokens in one shot (%.1f s, %lld steps): from one token of an answer to the next %.0f ms "
            "at most, %.0f ms as a rule, %.0f ms before; the prompt's longest unit %.0f ms\n",
            with_commas(options.n_long).c_str(), report.long_s, static_cast<long long>(report.n_long_steps),
            1e3 * report.longest_gap_s, 1e3 * report.median_gap_s, 1e3 * report.token_s, 1e3 * report.longest_unit_s);
    }
    std::printf("\nby the ledger\n");
    line("weights", ledger.weight_bytes, "copies; the file is mapped");
    line("K/V", ledger.kv_allocated_bytes - ledger.kv_kept_bytes, "of the chats");
    line("activations", ledger.activation_bytes);
    line("evidence", ledger.evidence_bytes);
    line("undo", ledger.undo_bytes);
    line("rest", ledger.sequence_bytes, "tokens, positions, logits");
    line("together", report.ledger_bytes());
    line("prefix", ledger.kv_kept_bytes, "K/V, in shared memory");
    std::printf("by the system\n");
    line("anonymous", report.resident.anonymous);
    line("resident", report.resident.now, "mapped weights and the prefix too");
    line("at its peak", report.resident.peak);
    std::printf("\nledger over anonymous %.3f; K/V peak %s; without eviction, each alone %s\n", ratio(report),
                bytes_text(ledger.kv_peak_bytes).c_str(), bytes_text(report.kv_full_bytes).c_str());
}

Json to_json(const std::string & model_path, const CrowdOptions & options, const CrowdReport & report) {
    const EngineLedger & ledger = report.ledger;
    Json object = measurement_json(model_path, options);
    object["policy"] = options.policies.front().name();
    object["budget"] = options.session.budget.to_string();
    object["n_chats"] = options.n_chats;
    object["n_prefix"] = options.n_prefix;
    object["n_tail"] = options.n_tail;
    object["n_tokens"] = report.n_tokens;
    object["prefix_tps"] = report.prefix_tps;
    object["tail_tps"] = report.tail_tps;
    object["decode_tps"] = report.decode_tps;
    object["n_forks"] = report.n_forks;
    object["fork_growth"] = report.fork_growth;
    if (options.n_long > 0) {
        object["n_long"] = options.n_long;
        object["n_long_steps"] = report.n_long_steps;
        object["long_s"] = report.long_s;
        object["token_s"] = report.token_s;
        object["median_gap_s"] = report.median_gap_s;
        object["longest_gap_s"] = report.longest_gap_s;
        object["longest_unit_s"] = report.longest_unit_s;
    }
    object["weight_bytes"] = ledger.weight_bytes;
    object["kv_allocated_bytes"] = ledger.kv_allocated_bytes;
    object["kv_kept_bytes"] = ledger.kv_kept_bytes;
    object["kv_peak_bytes"] = ledger.kv_peak_bytes;
    object["kv_full_bytes"] = report.kv_full_bytes;
    object["activation_bytes"] = ledger.activation_bytes;
    object["evidence_bytes"] = ledger.evidence_bytes;
    object["undo_bytes"] = ledger.undo_bytes;
    object["undo_peak_bytes"] = ledger.undo_peak_bytes;
    object["sequence_bytes"] = ledger.sequence_bytes;
    object["ledger_bytes"] = report.ledger_bytes();
    object["rss_anonymous_bytes"] = report.resident.anonymous;
    object["rss_bytes"] = report.resident.now;
    object["rss_peak_bytes"] = report.resident.peak;
    object["ledger_over_anonymous"] = ratio(report);
    return object;
}

}  // namespace

int bench_crowd(const ModelFlags & model_flags, const BenchOptions & bench, const CrowdFlags & flags, bool json) {
    auto options = measure_options<CrowdOptions>(bench);
    options.n_chats = flags.n_chats;
    options.n_prefix = flags.n_prefix;
    options.n_tail = flags.n_tail;
    options.n_long = flags.n_long;
    const auto report = measure_on(model_flags, options, measure_crowd);
    return show_measured(
        report, json, [&](const auto & all) { return to_json(model_flags.path, options, all); },
        [&](const auto & all) { print_report(options, all); });
}

}  // namespace pith::app
