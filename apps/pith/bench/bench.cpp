// bench.cpp - `pith bench`: speed and memory at given depths, beside llama-bench where it is found.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "app/base/commands.h"
#include "app/base/errors.h"
#include "app/base/ledger_report.h"
#include "app/base/progress.h"
#include "app/bench/bench_lists.h"
#include "app/bench/bench_measure.h"
#include "app/bench/bench_modes.h"
#include "app/bench/bench_policies.h"
#include "app/bench/find_llama_bench.h"
#include "app/flags/engine_flags.h"
#include "bench/bench.h"
#include "core/text.h"
#include "pith/policies.h"
#include "policy/auto_policy.h"
#include "policy/policy.h"
#include "statistics/median.h"

namespace pith::app {
namespace {

struct BenchFlags {
    ModelFlags model;
    SessionFlags session;
    std::vector<int64_t> depths = {0};
    int n_prompt = -1;
    int n_generate = -1;
    BenchListFlags lists;  // as given
    std::optional<int> n_repetitions;
    bool scoring = false;
    bool profile = false;
    bool gates = false;
    bool in_turns = false;
    bool paced = false;
    BatchFlags batch;                     // of --batch; no batches: not asked for
    std::optional<int> n_chats;           // of --crowd
    CrowdFlags crowd;                     // its lengths
    std::optional<int64_t> n_endless;     // of --endless
    std::optional<std::string> policies;  // what `--policies` is given; "all" where nothing is
    bool no_llama = false;
    bool no_interleave = false;
    bool json = false;
};

// What --scoring stands for: one long prompt, evicted once, nothing else.
void apply_scoring_defaults(BenchFlags & flags) {
    if (flags.session.policy.empty()) { flags.session.policy = "snapkv,h2o,tova,adakv"; }
    if (!flags.session.budget) { flags.session.budget = "1024"; }
    if (flags.session.prefill == "auto") { flags.session.prefill = "one-shot"; }
    if (flags.n_prompt < 0) { flags.n_prompt = 4096; }
    if (flags.n_generate < 0) { flags.n_generate = 0; }
    flags.no_llama = true;
}

// What --profile, --gates and --in-turns measure where nothing else is asked for.
void apply_mode_defaults(BenchFlags & flags) {
    if (flags.n_generate < 0) { flags.n_generate = flags.profile ? 256 : flags.gates ? 64 : 128; }
    if (!flags.n_repetitions) { flags.n_repetitions = flags.profile ? 1 : flags.gates ? 3 : 7; }
    flags.no_llama = true;
}

// What --crowd and --endless measure where nothing else is asked for: one policy that evicts.
void apply_eviction_defaults(BenchFlags & flags) {
    if (flags.session.policy.empty()) {
        flags.session.policy = "snapkv";
        if (!flags.session.budget) { flags.session.budget = "512"; }
    }
    if (flags.n_generate < 0) { flags.n_generate = flags.n_endless ? static_cast<int>(*flags.n_endless / 10) : 32; }
    flags.n_repetitions = 1;
    flags.no_llama = true;
}

// llama.cpp's programs take no adapter and are told of no devices: they would measure something else.
bool beside_llama(const BenchFlags & flags) {
    return !flags.no_llama && flags.model.lora.empty() && !flags.model.devices.any();
}

Result<BenchOptions> bench_options(BenchFlags flags) {
    BenchOptions options;
    const bool has_gates = !flags.model.gate.empty();
    const std::string list = !flags.session.policy.empty() ? flags.session.policy : has_gates ? "full,gated" : "full";
    options.policies.clear();
    flags.session.policy = "full";  // the flags check one policy and its budget: one that evicts stands for the list
    for (const std::string_view name : split(list, ',')) {
        const bool little_said = flags.session.policy == "full" || is_auto(flags.session.policy);
        if (is_auto(name)) {
            options.policies.emplace_back(kAutoPolicy);
            if (little_said) { flags.session.policy = kAutoPolicy; }
            continue;
        }
        PITH_ASSIGN_OR_RETURN(const Policy policy, Policy::parse(name));
        options.policies.push_back(policy.name());
        if (policy.evicts() || (policy.gated() && little_said)) { flags.session.policy = policy.name(); }
    }
    PITH_ASSIGN_OR_RETURN(options.session, flags.session.options(has_gates));
    options.model_path = flags.model.path;
    options.model = flags.model.options();
    options.depths = flags.depths;
    options.n_prompt = flags.n_prompt < 0 ? 512 : flags.n_prompt;
    options.n_generate = flags.n_generate < 0 ? 32 : flags.n_generate;
    PITH_ASSIGN_OR_RETURN(options.lists, flags.lists.read());
    options.n_repetitions = flags.n_repetitions.value_or(options.n_repetitions);
    options.interleave = !flags.no_interleave;
    if (beside_llama(flags)) { options.llama = find_llama_bench(); }
    return options;
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
        if (is_auto(row.policy)) { out["chosen"] = ledger.policy; }
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
    return is_auto(row.policy) ? row.policy + " (" + row.pith.ledger.policy + ")" : row.policy;
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
                options.llama.command.empty() ? "not found, or left out" : options.llama.command.back().c_str());
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

// --policies: --depth, where given, is the length of the one prompt.
int policies_command(BenchFlags flags) {
    BenchPoliciesFlags costs;
    costs.policies = *flags.policies;
    costs.json = flags.json;
    if (flags.depths.size() > 1) { return fail_usage("--policies measures one depth: give one --depth"); }
    if (flags.depths.front() != 0) { costs.n_prompt = static_cast<int>(flags.depths.front()); }
    if (flags.n_prompt >= 0) { costs.n_prompt = flags.n_prompt; }
    if (flags.n_repetitions) { costs.n_repetitions = *flags.n_repetitions; }
    if (const Status found = flags.model.find(); !found.ok()) { return fail_or_usage(found); }
    return bench_policies(flags.model, flags.session, costs);
}

// The flag that asks for something else than speed at given depths; empty: none does.
std::string mode_of(const BenchFlags & flags) {
    return flags.gates                    ? "--gates"
           : flags.profile                ? "--profile"
           : flags.in_turns               ? "--in-turns"
           : flags.policies               ? "--policies"
           : !flags.batch.batches.empty() ? "--batch"
           : flags.n_chats                ? "--crowd"
           : flags.n_endless              ? "--endless"
                                          : "";
}

int bench_command(BenchFlags flags) {
    if (int{flags.scoring} + int{flags.profile} + int{flags.gates} + int{flags.in_turns} + int{flags.policies.has_value()} +
            int{!flags.batch.batches.empty()} + int{flags.n_chats.has_value()} + int{flags.n_endless.has_value()} >
        1) {
        return fail_usage(
            "--scoring, --policies, --profile, --gates, --in-turns, --batch, --crowd and --endless: give one of them");
    }
    if (flags.paced && (!flags.in_turns || flags.json)) { return fail_usage("--paced goes with --in-turns, without --json"); }
    if (flags.batch.own && flags.batch.batches.empty()) { return fail_usage("--own goes with --batch"); }
    if (flags.gates && flags.model.gate.empty()) { return fail_usage("--gates measures gates: name their file with --gate"); }
    const std::string mode = mode_of(flags);
    if (const Status status = flags.lists.check(mode); !status.ok()) { return fail_usage(status); }
    flags.lists.give_first(flags.n_prompt, flags.n_generate, flags.session);
    if (flags.policies) { return policies_command(flags); }
    if (flags.scoring) { apply_scoring_defaults(flags); }
    if (flags.profile || flags.gates || flags.in_turns) { apply_mode_defaults(flags); }
    const bool one_policy = flags.n_chats || flags.n_endless;
    if (one_policy) { apply_eviction_defaults(flags); }
    if (const Status found = flags.model.find(); !found.ok()) { return fail_or_usage(found); }
    auto options = bench_options(flags);
    if (!options.ok()) { return fail_usage(options.status()); }
    if (one_policy && options->policies.size() > 1) { return fail_usage("--crowd and --endless measure one policy: give one"); }
    if (flags.n_chats) {
        flags.crowd.n_chats = *flags.n_chats;
        return bench_crowd(flags.model, *options, flags.crowd, flags.json);
    }
    if (flags.n_endless) { return bench_endless(flags.model, *options, *flags.n_endless, flags.json); }
    if (flags.profile) { return bench_profile(flags.model, *options, flags.json); }
    if (flags.gates) {
        const std::vector<int> & given = flags.lists.prompts;
        const std::vector<int> lengths = given.empty() ? std::vector<int>{2048, 8192} : given;
        return bench_gates(flags.model, *options, lengths, flags.json);
    }
    if (!flags.batch.batches.empty()) {
        if (!flags.n_repetitions) { options->n_repetitions = 3; }
        return bench_batch(*options, flags.batch, beside_llama(flags), flags.json);
    }
    if (flags.in_turns) {
        options->n_prompt = std::max(flags.n_prompt, 0);
        return bench_in_turns(flags.model, *options, options->lists.budgets,
                              flags.paced  ? TurnsOutput::kPaced
                              : flags.json ? TurnsOutput::kJson
                                           : TurnsOutput::kTable);
    }
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

void add_bench_command(CLI::App & root, int & exit_code) {
    auto flags = std::make_shared<BenchFlags>();
    CLI::App * command = root.add_subcommand("bench", "Measure speed and memory, beside llama.cpp where llama-bench is found");
    flags->model.add_to(*command);
    flags->session.add_to(*command, "full, and gated with --gate");
    flags->lists.add_to(*command);
    command->add_option("--depth", flags->depths, "Tokens already in the cache, separated by ','")->delimiter(',');
    command->add_option("-r,--repetitions", flags->n_repetitions,
                        "Measurements of each case (default: 5; --policies, --gates: 3; --in-turns: 7; --profile: 1)");
    command->add_flag("--scoring", flags->scoring, "Report the share of prefill that scoring, planning and compaction take");
    command
        ->add_option(
            "--policies", flags->policies,
            "Report what these policies (separated by ','; nothing or all: every one but joint) add to a one-shot prefill of "
            "--depth or -p tokens (default: 8192)")
        ->expected(0, 1)
        ->default_str("all");
    command->add_flag(
        "--profile", flags->profile,
        "Report where a token's time goes, for a prompt of --depth or -p tokens and -n decoded ones (default: 256)");
    command->add_flag(
        "--gates", flags->gates,
        "Report what the gates of --gate add to prompts of -p tokens (separated by ','; default: 2048,8192) and what they save "
        "behind them, beside the full cache, in turns (default: -n 64 -r 3)");
    command->add_flag(
        "--in-turns", flags->in_turns,
        "Report the time of a decoded token at each --depth and --budget (separated by ','): one process, prompts "
        "that grow from depth to depth, all cases measured in turns (default: -n 128 -r 7)");
    command->add_flag(
        "--paced", flags->paced,
        "With --in-turns: a round for each line of standard input, until it ends, each printed as lines of round, "
        "case and seconds a token; with -p also a prompt of so many tokens");
    command
        ->add_option("--batch", flags->batch.batches,
                     "Report the tokens per second of so many sequences that decode together behind --depth tokens they share "
                     "(separated by ','), beside llama-batched-bench (default: -n 32 -r 3)")
        ->delimiter(',');
    command->add_flag(
        "--own", flags->batch.own,
        "With --batch: each sequence evicts for itself, and holds alone what it keeps (default: one eviction, whose "
        "entries all share)");
    command->add_option(
        "--crowd", flags->n_chats,
        "Report the memory and the tokens per second of so many chats that live in one process, behind --prefix "
        "tokens they share and --tail of their own (default: --policy snapkv --budget 512 -n 32)");
    command->add_option("--prefix", flags->crowd.n_prefix, "With --crowd: tokens that all chats share")->capture_default_str();
    command->add_option("--tail", flags->crowd.n_tail, "With --crowd: tokens of each chat's own")->capture_default_str();
    command->add_option("--long", flags->crowd.n_long,
                        "With --crowd: tokens of a prompt that is then read in one shot beside the chats' answers: reports the "
                        "longest time from one of their tokens to the next");
    command->add_option(
        "--endless", flags->n_endless,
        "Report whether tokens become slower, or memory grows, while so many go through one session: in chunks, "
        "the last -n one by one (default: a tenth of them; --policy snapkv --budget 512)");
    command->add_flag("--no-llama", flags->no_llama, "Leave llama-bench out");
    command->add_flag("--no-interleave", flags->no_interleave,
                      "All repetitions of a case in one process: quicker at great depths");
    command->add_flag("--json", flags->json, "One JSON object on standard output");
    command->callback([flags, &exit_code] { exit_code = bench_command(*flags); });
}

}  // namespace pith::app
