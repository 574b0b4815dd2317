// bench_endless.cpp - `pith bench --endless`: a text without end through one session, as a table or as JSON.
#include "speed/bench_endless.h"

#include <cstdio>

#include "app/bench/bench_modes.h"
#include "common/bench/bench_measure.h"
#include "core/text.h"

namespace pith::app {
namespace {

void print_part(const char * name, const EndlessPart & part) {
    if (part.n_tokens == 0) { return; }
    std::printf("%-11s %10s %9.1f | %9.1f %9.1f %6.3f | %10s %10s\n", name, with_commas(part.n_tokens).c_str(), part.all_tps,
                part.last_tps, part.fresh_tps, part.ratio, bytes_text(part.anonymous_first_bytes).c_str(),
                bytes_text(part.anonymous_last_bytes).c_str());
}

void print_report(const EndlessOptions & options, const EndlessReport & report) {
    const Ledger & ledger = report.ledger;
    std::printf(
        "%s tokens through one session, policy %s, budget %s, chunks of %d; the last %s of each part in turns with a "
        "fresh session whose budget is full\n\n",
        with_commas(ledger.n_tokens).c_str(), ledger.policy.c_str(), options.session.budget.to_string().c_str(),
        options.session.chunk, with_commas(options.n_compared).c_str());
    std::printf("%-11s %10s %9s | %9s %9s %6s | %10s %10s\n", "", "tokens", "tokens/s", "last", "fresh", "ratio", "anonymous",
                "at the end");
    print_part("in chunks", report.chunks);
    print_part("one by one", report.single);
    std::printf("\nKV peak %s, %s now; the longest lane ever %s entries; without eviction %s\n",
                bytes_text(ledger.kv_peak_bytes).c_str(), bytes_text(ledger.kv_allocated_bytes).c_str(),
                with_commas(ledger.peak_lane_entries).c_str(), bytes_text(ledger.kv_full_bytes).c_str());
}

Json to_json(const EndlessPart & part) {
    Json out;
    out["n_tokens"] = part.n_tokens;
    out["tps"] = part.all_tps;
    out["last_tps"] = part.last_tps;
    out["fresh_tps"] = part.fresh_tps;
    out["ratio"] = part.ratio;
    out["rss_anonymous_first_bytes"] = part.anonymous_first_bytes;
    out["rss_anonymous_last_bytes"] = part.anonymous_last_bytes;
    return out;
}

Json to_json(const std::string & model_path, const EndlessOptions & options, const EndlessReport & report) {
    Json object = measurement_json(model_path, options);
    object["policy"] = report.ledger.policy;
    object["budget"] = options.session.budget.to_string();
    object["chunk"] = options.session.chunk;
    object["n_compared"] = options.n_compared;
    object["n_tokens"] = report.ledger.n_tokens;
    object["chunks"] = to_json(report.chunks);
    if (report.single.n_tokens > 0) { object["one_by_one"] = to_json(report.single); }
    object["n_evictions"] = report.ledger.n_evictions;
    object["peak_lane_entries"] = report.ledger.peak_lane_entries;
    object["kv_peak_bytes"] = report.ledger.kv_peak_bytes;
    object["kv_allocated_bytes"] = report.ledger.kv_allocated_bytes;
    object["kv_full_bytes"] = report.ledger.kv_full_bytes;
    object["evidence_peak_bytes"] = report.ledger.evidence_peak_bytes;
    object["activation_peak_bytes"] = report.ledger.activation_peak_bytes;
    return object;
}

}  // namespace

int bench_endless(const ModelFlags & model_flags, const BenchOptions & bench, int64_t n_tokens, bool json) {
    auto options = measure_options<EndlessOptions>(bench);
    options.n_tokens = n_tokens;
    const auto report = measure_on(model_flags, options, measure_endless);
    return show_measured(
        report, json, [&](const auto & all) { return to_json(model_flags.path, options, all); },
        [&](const auto & all) { print_report(options, all); });
}

}  // namespace pith::app
