// bench_batch.cpp - `pith bench --batch`: sequences that decode together, as a table or as JSON.
#include "speed/bench_batch.h"

#include <algorithm>
#include <cstdio>

#include "app/bench/bench_modes.h"
#include "common/base/text_columns.h"
#include "common/bench/bench_measure.h"
#include "common/bench/find_llama_bench.h"
#include "core/median.h"

namespace pith::app {
namespace {

void print_rows(const BatchBenchOptions & options, const std::vector<BatchRow> & rows) {
    const int name = policy_width(rows);
    std::printf("%d tokens of each sequence%s, medians of %d interleaved runs; llama-batched-bench: %s\n\n", options.n_generate,
                options.own ? ", each with entries of its own where a policy evicts" : "", options.n_repetitions,
                options.llama.command.empty()
                    ? "not found, or left out"
                    : (options.llama.command.back() + ", with or without flash attention, the faster one").c_str());
    std::printf("%7s  %-*s  %7s  %5s | %9s %9s %6s | %9s | %9s | %10s\n", "depth", name, "policy", "budget", "batch",
                "tokens/s", "llama.cpp", "ratio", "of prompt", "scheduler", "KV");
    for (const BatchRow & row : rows) {
        char llama[32] = "-";
        char ratio[32] = "-";
        if (!row.llama_tps.empty()) {
            std::snprintf(llama, sizeof llama, "%.1f", median(row.llama_tps));
            std::snprintf(ratio, sizeof ratio, "%.2f", row.ratio);
        }
        std::printf("%7lld  %-*s  %7s  %5d | %9.1f %9s %6s | %9.2f | %7.2f %% | %10s\n", static_cast<long long>(row.depth),
                    name, row.policy.c_str(), row.budget.empty() ? "all" : row.budget.c_str(), row.batch, median(row.tps),
                    llama, ratio, median(row.tps) / median(row.prompt_tps), 100 * median(row.schedule_share),
                    bytes_text(row.kv_bytes).c_str());
    }
    std::printf("\nof prompt: over the model's own speed at a prompt of 512 tokens, nothing evicted\n");
}

Json to_json(const BatchBenchOptions & options, const std::vector<BatchRow> & rows) {
    Json object = measurement_json(options.model_path, options);
    object["llama_batched_bench"] = !options.llama.command.empty();
    object["own"] = options.own;
    object["rows"] = Json::array();
    for (const BatchRow & row : rows) {
        Json out;
        out["depth"] = row.depth;
        out["policy"] = row.policy;
        out["budget"] = row.budget;
        out["batch"] = row.batch;
        out["tps"] = median(row.tps);
        out["tps_samples"] = row.tps;
        out["llama_tps"] = median(row.llama_tps);
        out["llama_tps_samples"] = row.llama_tps;
        out["ratio"] = row.ratio;
        out["prompt_tps"] = median(row.prompt_tps);
        out["schedule_share"] = median(row.schedule_share);
        out["kv_bytes"] = row.kv_bytes;
        object["rows"].push_back(std::move(out));
    }
    return object;
}

}  // namespace

int bench_batch(const BenchOptions & bench, const BatchFlags & flags, bool with_llama, bool json) {
    auto options = measure_options<BatchBenchOptions>(bench);
    options.model_path = bench.model_path;
    options.model = bench.model;
    options.depths = bench.depths;
    options.batches = flags.batches;
    options.own = flags.own;
    if (with_llama) { options.llama = find_llama_program("llama-batched-bench"); }
    Result<std::vector<BatchRow>> rows = Status();
    {
        ProgressLine line("bench");
        options.progress = [&line](const std::string & what) { line.show_text(what); };
        rows = run_batch_bench(options);
    }
    return show_measured(
        rows, json, [&](const auto & all) { return to_json(options, all); },
        [&](const auto & all) { print_rows(options, all); });
}

}  // namespace pith::app
