// demo.cpp - `pith demo`: what each policy still knows of a text several times longer than its budget.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "commands.h"
#include "engine_flags.h"
#include "errors.h"
#include "eval/demo.h"
#include "interrupt.h"
#include "ledger_report.h"
#include "policy/policy.h"
#include "progress.h"

namespace pith::app {
namespace {

struct DemoFlags {
    ModelFlags model;
    std::vector<std::string> budgets = {"256", "128"};
    std::string policies;
    std::vector<std::string> tasks;
    int n_samples = 0;
    int n_tokens = 1024;
    int n_threads = 0;
    uint64_t seed = 1;
    bool context_only = false;
    bool json = false;
};

// The reference model: beside an installed program, else in the source tree.
std::string reference_model() {
    std::error_code error;
    const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
    for (const auto & path : {program.parent_path() / "../share/pith/models/pith-reference.gguf",
                              std::filesystem::path(PITH_SOURCE_MODELS) / "pith-reference.gguf"}) {
        if (std::filesystem::exists(path, error)) { return path.lexically_normal().string(); }
    }
    return {};
}

Result<DemoOptions> demo_options(const DemoFlags & flags) {
    DemoOptions options;
    options.budgets.clear();
    for (const std::string & text : flags.budgets) {
        PITH_ASSIGN_OR_RETURN(const Budget budget, Budget::parse(text));
        options.budgets.push_back(budget);
    }
    if (!flags.policies.empty()) {
        PITH_ASSIGN_OR_RETURN(const std::vector<Policy> policies, Policy::parse_list(flags.policies));
        options.policies.clear();
        for (const Policy & policy : policies) { options.policies.push_back(policy.name()); }
    }
    if (!flags.tasks.empty()) { options.tasks = flags.tasks; }
    if (flags.n_samples < 0) {
        return {ErrorCode::kInvalidArgument, "--samples is " + std::to_string(flags.n_samples) + ": give 1 or more"};
    }
    if (flags.n_samples > 0) { options.n_samples = flags.n_samples; }
    options.n_tokens = flags.n_tokens;
    options.question_aware = !flags.context_only;
    options.n_threads = flags.n_threads;
    options.seed = flags.seed;
    return options;
}

void print_table(const DemoOptions & options, const std::string & model_path, const std::vector<DemoRow> & rows) {
    std::string tasks;
    for (const std::string & task : options.tasks) { tasks += (tasks.empty() ? "" : ", ") + task; }
    std::printf("%s: %d texts of about %.0f tokens, a fact hidden in each (%s), greedy answers.\n",
                std::filesystem::path(model_path).filename().c_str(), options.n_samples,
                rows.empty() ? 0 : rows[0].prompt_tokens, tasks.c_str());
    std::puts(options.question_aware
                  ? "Question-aware: policies see the question before they evict (--context-only: they do not).\n"
                  : "Context-only: the text is compressed before the question is known.\n");
    size_t width = 6;
    for (const DemoRow & row : rows) { width = std::max(width, row.policy.size()); }
    const int name = static_cast<int>(width);
    std::printf("%-*s  %8s  %10s  %13s  %10s  %11s  %10s\n", name, "policy", "budget", "right", "entries/lane", "KV",
                "prefill t/s", "decode t/s");
    std::string budget = rows.empty() ? "" : rows.front().budget;
    for (const DemoRow & row : rows) {
        if (row.budget != budget) { std::puts(""); }
        budget = row.budget;
        char right[32];
        std::snprintf(right, sizeof right, "%g of %d", row.n_right, row.n_samples);
        std::printf("%-*s  %8s  %10s  %13.0f  %10s  %11.0f  %10.0f\n", name, row.policy.c_str(),
                    row.budget.empty() ? "all" : row.budget.c_str(), right, row.kept_entries, bytes_text(row.kv_bytes).c_str(),
                    row.prefill_tps, row.decode_tps);
    }
}

Json to_json(const DemoOptions & options, const std::string & model_path, const std::vector<DemoRow> & rows) {
    Json object;
    object["model"] = model_path;
    object["tasks"] = options.tasks;
    object["n_samples"] = options.n_samples;
    object["n_tokens"] = options.n_tokens;
    object["question_aware"] = options.question_aware;
    object["rows"] = Json::array();
    for (const DemoRow & row : rows) {
        object["rows"].push_back({{"policy", row.policy},
                                  {"budget", row.budget},
                                  {"n_samples", row.n_samples},
                                  {"n_right", row.n_right},
                                  {"kept_entries_per_lane", row.kept_entries},
                                  {"prompt_tokens", row.prompt_tokens},
                                  {"kv_allocated_bytes", row.kv_bytes},
                                  {"prefill_tps", row.prefill_tps},
                                  {"decode_tps", row.decode_tps}});
    }
    return object;
}

int demo_command(DemoFlags flags) {
    auto options = demo_options(flags);
    if (!options.ok()) { return fail_usage(options.status().message()); }
    if (flags.model.path.empty()) { flags.model.path = reference_model(); }
    if (flags.model.path.empty()) {
        return fail({ErrorCode::kNotFound,
                     std::string("the built-in model is missing: '") + PITH_SOURCE_MODELS +
                         "/pith-reference.gguf' does not exist; give another with -m, or run `pith train reference`"});
    }
    const auto model = flags.model.load();
    if (!model.ok()) { return fail(model.status()); }
    const auto tokenizer = Tokenizer::load(flags.model.path);
    if (!tokenizer.ok()) { return fail(tokenizer.status()); }
    options->cancel = &catch_interrupt();
    Result<std::vector<DemoRow>> rows = Status();
    {
        ProgressLine line("demo");
        options->progress = [&line](int n_done, int n_total) { line.show_fraction(static_cast<double>(n_done) / n_total); };
        rows = run_demo(*model, *tokenizer, *options);
    }
    if (!rows.ok()) { return fail(rows.status()); }
    if (flags.json) {
        print_json(to_json(*options, flags.model.path, *rows));
    } else {
        print_table(*options, flags.model.path, *rows);
    }
    return kExitOk;
}

}  // namespace

void add_demo_command(CLI::App & root, int & exit_code) {
    auto flags = std::make_shared<DemoFlags>();
    CLI::App * command = root.add_subcommand("demo", "Hide facts in long texts, ask for them under several policies");
    flags->model.add_to(*command, false);
    command->add_option("--budget", flags->budgets, "Budgets to compare")->delimiter(',')->capture_default_str();
    command->add_option("--policy", flags->policies, "Policies to compare, separated by ','");
    command->add_option("--task", flags->tasks, "Kinds of questions: single, multikey, multivalue, vt, cwe, facts")
        ->delimiter(',');
    command->add_option("--samples", flags->n_samples, "Texts");
    command->add_option("--tokens", flags->n_tokens, "Length of a text")->capture_default_str();
    command->add_option("-t,--threads", flags->n_threads, "Threads (default: one per core; 1 for models under 32 MiB)");
    command->add_option("-s,--seed", flags->seed, "Seed of the texts")->capture_default_str();
    command->add_flag("--context-only", flags->context_only, "Compress before the question is known");
    command->add_flag("--json", flags->json, "One JSON object on standard output");
    command->callback([flags, &exit_code] { exit_code = demo_command(*flags); });
}

}  // namespace pith::app
