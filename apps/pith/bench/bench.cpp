// bench.cpp - `pith bench`: speed and memory at given depths, beside llama-bench where it is found.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "app/shell/commands.h"
#include "app/shell/lab_program.h"
#include "common/base/errors.h"
#include "common/base/ledger_report.h"
#include "common/base/progress.h"
#include "common/bench/bench_flags.h"
#include "common/bench/bench_measure.h"
#include "common/bench/find_llama_bench.h"
#include "core/median.h"
#include "engine/probe/bench.h"
#include "policy/auto_policy.h"

namespace pith::app {
namespace {

// What --scoring stands for: one long prompt, evicted once, nothing else.
void apply_scoring_defaults(BenchFlags & flags) {
    if (flags.session.policy.empty()) { flags.session.policy = "snapkv,h2o,tova,adakv"; }
    if (!flags.session.budget) { flags.session.budget = "1024"; }
    if (flags.session.prefill == "auto") { flags.session.prefill = "one-shot"; }
    if (flags.n_prompt < 0) { flags.n_prompt = 4096; }
    if (flags.n_generate < 0) { flags.n_generate = 0; }
    flags.no_llama = true;
}

Json to_json(const BenchOptions & options, const std::vector<BenchRow> & rows) {
    Json object = measurement_json(options.model_path, options);
    if (!options.model.gate_file.empty()) { object["gate"] = options.model.gate_file; }
    if (!options.model.lora_file.empty()) {
        object["lora"] = options.model.lora_file;
        object["lora_scale"] = options.model.lora_scale;
    }
    if (const DeviceOptions & devices = options.model.devices; devices.any()) {
        object["rpc_servers"] = devices.rpc_servers;
        object["devices"] = devices.names;
        object["n_device_layers"] = devices.n_layers;
        object["tensor_split"] = devices.split;
    }
    object["interleaved"] = options.interleave;
    object["llama_bench"] = !options.llama.command.empty();
    object["rows"] = Json::array();
    for (const BenchRow & row : rows) {
        const Ledger & ledger = row.pith.ledger;
        Json out;
        out["depth"] = row.depth;
        out["n_prompt"] = row.n_prompt;
        out["n_generate"] = row.n_generate;
        out["n_threads"] = row.n_threads;
        out["cache_type_k"] = std::string(to_string(row.type_k));
        out["cache_type_v"] = std::string(to_string(row.type_v));
        out["chunk"] = row.chunk;
        out["policy"] = row.policy;
        if (row.policy == kAutoPolicy) { out["chosen"] = ledger.policy; }
        out["budget"] = row.budget;
        out["prefill_tps"] = median(row.pith.prefill_tps);
        out["decode_tps"] = median(row.pith.decode_tps);
        out["prefill_samples"] = row.pith.prefill_tps;
        out["decode_samples"] = row.pith.decode_tps;
        out["llama_prefill_tps"] = median(row.llama.prefill_tps);
        out["llama_decode_tps"] = median(row.llama.decode_tps);
        out["llama_prefill_samples"] = row.llama.prefill_tps;
        out["llama_decode_samples"] = row.llama.decode_tps;
        out["prefill_ratio"] = row.prefill_ratio;
        out["decode_ratio"] = row.decode_ratio;
        out["attention"] = ledger.attention;
        out["budget_entries"] = ledger.budget_entries;
        out["evicted_entries"] = ledger.evicted_entries;
        out["kv_needed_bytes"] = ledger.kv_needed_bytes;
        out["kv_allocated_bytes"] = ledger.kv_allocated_bytes;
        out["kv_peak_bytes"] = ledger.kv_peak_bytes;
        out["evidence_peak_bytes"] = ledger.evidence_peak_bytes;
        out["activation_peak_bytes"] = ledger.activation_peak_bytes;
        out["rss_peak_bytes"] = row.pith.rss_peak_bytes;
        out["rss_anonymous_before_bytes"] = row.pith.rss_anonymous_before_bytes;
        out["rss_anonymous_bytes"] = row.pith.ledger.rss_anonymous_bytes;
        out["llama_rss_peak_bytes"] = row.llama.rss_peak_bytes;
        out["scoring_share"] = row.scoring_share;
        out["scoring_shares"] = row.scoring_shares;
        out["depth_prefill_s"] = row.pith.prefill_s;
        object["rows"].push_back(out);
    }
    return object;
}

std::string number(double value, const char * pattern) {
    if (value <= 0) { return "-"; }
    char text[32];
    std::snprintf(text, sizeof text, pattern, value);
    return text;
}

std::string name_of(const BenchRow & row) {
    return row.policy == kAutoPolicy ? row.policy + " (" + row.pith.ledger.policy + ")" : row.policy;
}

int name_width(const std::vector<BenchRow> & rows) {
    size_t width = 6;
    for (const BenchRow & row : rows) { width = std::max(width, name_of(row).size()); }
    return static_cast<int>(width);
}

void print_speed(const BenchOptions & options, const std::vector<BenchRow> & rows) {
    const int name = name_width(rows);
    const VariedColumns varied(options.lists);
    std::printf("prompt %s, generate %s, medians of %d%s; llama.cpp: %s\n\n",
                numbers_text(options.lists.prompts, options.n_prompt).c_str(),
                numbers_text(options.lists.generates, options.n_generate).c_str(), options.n_repetitions,
                options.interleave ? " interleaved runs" : "",
                options.llama.command.empty()
                    ? "not found, or left out"
                    : (options.llama.command.back() + ", with or without flash attention, the faster one").c_str());
    std::printf("%s%7s  %-*s  %7s | %9s %9s %6s | %9s %9s %6s | %10s %10s %10s %10s\n", varied.header().c_str(), "depth", name,
                "policy", "budget", "prefill", "llama.cpp", "ratio", "decode", "llama.cpp", "ratio", "KV", "KV peak",
                "resident", "llama.cpp");
    for (const BenchRow & row : rows) {
        const std::string llama_rss = row.llama.rss_peak_bytes > 0 ? bytes_text(row.llama.rss_peak_bytes) : "-";
        std::printf("%s%7lld  %-*s  %7s | %9s %9s %6s | %9s %9s %6s | %10s %10s %10s %10s\n", varied.cells(row).c_str(),
                    static_cast<long long>(row.depth), name, name_of(row).c_str(),
                    row.budget.empty() ? "all" : row.budget.c_str(), number(median(row.pith.prefill_tps), "%.1f").c_str(),
                    number(median(row.llama.prefill_tps), "%.1f").c_str(), number(row.prefill_ratio, "%.2f").c_str(),
                    number(median(row.pith.decode_tps), "%.1f").c_str(), number(median(row.llama.decode_tps), "%.1f").c_str(),
                    number(row.decode_ratio, "%.2f").c_str(), bytes_text(row.pith.ledger.kv_allocated_bytes).c_str(),
                    bytes_text(row.pith.ledger.kv_peak_bytes).c_str(), bytes_text(row.pith.rss_peak_bytes).c_str(),
                    llama_rss.c_str());
    }
}

void print_scoring(const BenchOptions & options, const std::vector<BenchRow> & rows) {
    const int name = name_width(rows);
    std::printf("share of the prefill's time spent on evidence, plan and compaction; medians of %d\n\n", options.n_repetitions);
    const VariedColumns varied(options.lists);
    std::printf("%s%7s  %-*s  %7s | %9s | %10s %10s %10s | %7s\n", varied.header().c_str(), "tokens", name, "policy", "budget",
                "prefill s", "evidence s", "plan s", "compact s", "share");
    for (const BenchRow & row : rows) {
        std::printf("%s%7lld  %-*s  %7s | %9.2f | %10.3f %10.3f %10.3f | %5.1f %%\n", varied.cells(row).c_str(),
                    static_cast<long long>(row.depth > 0 ? row.depth : row.n_prompt), name, name_of(row).c_str(),
                    row.budget.empty() ? "all" : row.budget.c_str(), row.pith.prefill_s, row.pith.evidence_s, row.pith.plan_s,
                    row.pith.compact_s, 100 * row.scoring_share);
    }
}

int bench_command(BenchFlags flags, const std::vector<std::string> & arguments) {
    if (const Status status = flags.check(); !status.ok()) { return fail_usage(status); }
    if (!flags.mode().empty()) { return start_lab("pith bench " + flags.mode(), arguments); }
    flags.lists.give_first(flags.n_prompt, flags.n_generate, flags.session);
    if (flags.scoring) { apply_scoring_defaults(flags); }
    if (const Status found = flags.model.find(); !found.ok()) { return fail_or_usage(found); }
    auto options = flags.options();
    if (!options.ok()) { return fail_usage(options.status()); }
    if (flags.beside_llama()) { options->llama = find_llama_bench(); }
    Result<std::vector<BenchRow>> rows = Status();
    {
        ProgressLine line("bench");
        options->progress = [&line](const std::string & what) { line.show_text(what); };
        rows = run_bench(*options);
    }
    if (!rows.ok()) { return fail(rows.status()); }
    if (flags.json) {
        print_json(to_json(*options, *rows));
    } else if (flags.scoring) {
        print_scoring(*options, *rows);
    } else {
        print_speed(*options, *rows);
    }
    return kExitOk;
}

}  // namespace

void add_bench_command(CLI::App & root, int & exit_code, const std::vector<std::string> & arguments) {
    auto flags = std::make_shared<BenchFlags>();
    CLI::App * command = root.add_subcommand("bench", "Measure speed and memory, beside llama.cpp where llama-bench is found");
    flags->add_to(*command);
    command->callback([flags, &exit_code, &arguments] { exit_code = bench_command(*flags, arguments); });
}

}  // namespace pith::app
