// bench_gates.cpp - the table of what gates cost and save.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>
#include <string>

#include "app/bench/bench_modes.h"
#include "common/base/text_columns.h"
#include "common/bench/bench_measure.h"
#include "core/median.h"
#include "core/text.h"
#include "speed/gate_costs.h"

namespace pith::app {
namespace {

// The full cache's row of the same length, nullptr where it was not measured.
const GateCostRow * full_row(const std::vector<GateCostRow> & rows, const GateCostRow & row) {
    const auto found = std::ranges::find_if(
        rows, [&](const GateCostRow & other) { return other.policy == "full" && other.n_tokens == row.n_tokens; });
    return found == rows.end() ? nullptr : &*found;
}

// Median over the rounds of a / b, paired.
double paired_ratio(const std::vector<double> & a, const std::vector<double> & b) {
    std::vector<double> ratios;
    for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) { ratios.push_back(a[i] / b[i]); }
    return median(std::move(ratios));
}

// "0", "487", "never".
std::string even_text(const GateCostRow & full, const GateCostRow & row) {
    const std::optional<double> tokens = row.tokens_until_even(full);
    return tokens ? with_commas(static_cast<int64_t>(std::llround(*tokens))) : "never";
}

void print_rows(const GateCostOptions & options, const std::vector<GateCostRow> & rows) {
    const int name = policy_width(rows);
    std::printf(
        "one-shot prompts, then %d decoded tokens; medians of %d rounds in turns; ratios to full, paired;\n"
        "even: decoded tokens until the longer prefill has come back\n\n",
        options.n_generate, options.n_repetitions);
    std::printf("%7s  %-*s  %6s | %9s  %8s  %7s  %6s | %10s  %10s | %9s  %6s  %7s\n", "prompt", name, "policy", "kept",
                "prefill s", "gates s", "share", "ratio", "KV", "KV peak", "decode", "ratio", "even");
    for (const GateCostRow & row : rows) {
        const GateCostRow * full = full_row(rows, row);
        char prefill[16] = "-";
        char decode[16] = "-";
        std::string even = "-";
        if (full != nullptr) {
            std::snprintf(prefill, sizeof prefill, "%.3f", paired_ratio(row.prefill_s, full->prefill_s));
            std::snprintf(decode, sizeof decode, "%.3f", paired_ratio(full->token_s, row.token_s));
            even = even_text(*full, row);
        }
        std::printf("%7d  %-*s  %4.1f %% | %9.2f  %8.3f  %5.2f %%  %6s | %10s  %10s | %7.1f/s  %6s  %7s\n", row.n_tokens, name,
                    row.policy.c_str(), 100 * row.kept, median(row.prefill_s), median(row.gate_s), 100 * row.gate_share(),
                    prefill, bytes_text(row.kv_allocated_bytes).c_str(), bytes_text(row.kv_peak_bytes).c_str(),
                    1 / median(row.token_s), decode, even.c_str());
    }
}

Json to_json(const BenchOptions & bench, const GateCostOptions & options, const std::vector<GateCostRow> & rows) {
    Json object = measurement_json(bench.model_path, options);
    object["gate"] = bench.model.gate_file;
    object["rows"] = Json::array();
    for (const GateCostRow & row : rows) {
        Json out;
        out["n_tokens"] = row.n_tokens;
        out["policy"] = row.policy;
        out["kept"] = row.kept;
        out["prefill_s"] = median(row.prefill_s);
        out["gate_s"] = median(row.gate_s);
        out["gate_share"] = row.gate_share();
        out["decode_tps"] = 1 / median(row.token_s);
        out["prefill_samples_s"] = row.prefill_s;
        out["gate_samples_s"] = row.gate_s;
        out["token_samples_s"] = row.token_s;
        if (const GateCostRow * full = full_row(rows, row)) {
            out["prefill_ratio"] = paired_ratio(row.prefill_s, full->prefill_s);
            out["decode_ratio"] = paired_ratio(full->token_s, row.token_s);
            const std::optional<double> even = row.tokens_until_even(*full);
            out["tokens_until_even"] = even ? Json(*even) : Json();
        }
        out["kv_allocated_bytes"] = row.kv_allocated_bytes;
        out["kv_peak_bytes"] = row.kv_peak_bytes;
        out["gate_peak_bytes"] = row.gate_peak_bytes;
        object["rows"].push_back(std::move(out));
    }
    return object;
}

}  // namespace

int bench_gates(const ModelFlags & model_flags, const BenchOptions & bench, const std::vector<int> & lengths, bool json) {
    auto options = measure_options<GateCostOptions>(bench);
    options.lengths = lengths;
    const auto rows = measure_on(model_flags, options, measure_gate_costs);
    return show_measured(
        rows, json, [&](const auto & all) { return to_json(bench, options, all); },
        [&](const auto & all) { print_rows(options, all); });
}

}  // namespace pith::app
