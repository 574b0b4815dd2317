// demo.cpp - `pith demo`: what each policy still knows of a text several times longer than its budget.
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "app/base/commands.h"
#include "app/base/errors.h"
#include "app/base/flag_names.h"
#include "app/base/interrupt.h"
#include "app/base/progress.h"
#include "app/base/reference_model.h"
#include "app/eval/demo_report.h"
#include "app/flags/engine_flags.h"
#include "bench/policy_cases.h"
#include "eval/demo.h"
#include "eval/perplexity.h"

namespace pith::app {
namespace {

struct DemoFlags {
    ModelFlags model;
    std::vector<std::string> budgets = {"256", "128"};
    std::string policies;
    std::vector<std::string> tasks;
    std::optional<int> n_samples;
    int n_tokens = 1024;
    int n_threads = 0;
    std::string heads;
    uint64_t seed = 1;
    bool question_aware = false;
    bool context_only = false;
    bool share = false;
    bool perplexity = false;
    bool json = false;
    bool csv = false;
};

// Question-aware or not; without a flag, or with both, one beside the other.
std::vector<bool> settings(const DemoFlags & flags) {
    if (flags.question_aware == flags.context_only) { return {true, false}; }
    return {flags.question_aware};
}

Result<DemoOptions> demo_options(const DemoFlags & flags) {
    DemoOptions options;
    options.budgets.clear();
    for (const std::string & text : flags.budgets) {
        PITH_ASSIGN_OR_RETURN(const Budget budget, Budget::parse(text));
        options.budgets.push_back(budget);
    }
    const bool has_gates = !flags.model.gate.empty();
    if (has_gates) { options.policies = {"gated"}; }
    if (!flags.policies.empty()) {
        const bool with_importance = has_importance(flags.heads, flags.model.path, flags.model.is_adapted());
        PITH_ASSIGN_OR_RETURN(options.policies, policies_of_list(flags.policies, with_importance,
                                                                 has_gates ? GatePolicies::kAll : GatePolicies::kNone));
    }
    if (flags.perplexity && (!flags.tasks.empty() || flags.context_only || flags.question_aware)) {
        return {ErrorCode::kInvalidArgument,
                "--perplexity asks no questions: leave out --task, --question-aware and --context-only"};
    }
    if (flags.json && flags.csv) { return {ErrorCode::kInvalidArgument, "--json and --csv: give one of them"}; }
    if (!flags.tasks.empty()) { options.tasks = flags.tasks; }
    if (flags.n_samples.has_value()) {
        if (*flags.n_samples < 1) {
            return {ErrorCode::kInvalidArgument, "--samples is " + std::to_string(*flags.n_samples) + ": give 1 or more"};
        }
        options.n_samples = *flags.n_samples;
    }
    options.n_tokens = flags.n_tokens;
    // Dozens of policies, and some that no small budget can hold: only shared rows can say so and go on. Two settings have no
    // place for speeds, so their prefills are shared.
    options.share =
        flags.share || settings(flags).size() > 1 || ("," + flags.policies + ",").find(",all,") != std::string::npos;
    options.n_threads = flags.n_threads;
    options.heads_file = flags.heads;
    options.seed = flags.seed;
    return options;
}

PerplexityOptions perplexity_options(const DemoOptions & demo) {
    PerplexityOptions options;
    options.policies = demo.policies;
    options.budgets = demo.budgets;
    options.n_texts = demo.n_samples;
    options.n_tokens = demo.n_tokens;
    options.n_threads = demo.n_threads;
    options.seed = demo.seed;
    options.heads_file = demo.heads_file;
    options.cancel = demo.cancel;
    return options;
}

// The built-in model with the gates that come with it, for one more row where nobody names a model or policies. A second load:
// gates would change what `auto` is.
struct GatedDemo {
    bool wanted = false;
    std::optional<Model> model;

    explicit GatedDemo(const DemoFlags & flags)
        : wanted(!flags.model.named() && flags.model.gate.empty() && flags.model.lora.empty() && flags.policies.empty() &&
                 !flags.perplexity) {}

    void load(ModelFlags flags) {
        if (!wanted) { return; }
        auto gate = built_in_file("pith-reference.gate.gguf");
        if (gate.ok()) {
            flags.gate = *gate;
            auto loaded = flags.load();
            if (loaded.ok()) {
                model = std::move(*loaded);
                return;
            }
            gate = loaded.status();
        }
        warn("policy gated is left out: " + message_of(gate.status()));
    }
};

// Of all models, side by side: rows without a budget first.
Result<std::vector<DemoRow>> rows_of(const Model & model, const GatedDemo & gated, const Tokenizer & tokenizer,
                                     const DemoOptions & options) {
    PITH_ASSIGN_OR_RETURN(std::vector<DemoRow> rows, run_demo(model, tokenizer, options));
    if (!gated.model) { return rows; }
    DemoOptions own = options;
    own.policies = {"gated"};
    own.left_out = nullptr;
    own.progress = nullptr;
    PITH_ASSIGN_OR_RETURN(const std::vector<DemoRow> more, run_demo(*gated.model, tokenizer, own));
    const auto in_budget = std::ranges::find_if(rows, [](const DemoRow & row) { return !row.budget.empty(); });
    rows.insert(in_budget, more.begin(), more.end());
    return rows;
}

int ask_questions(const DemoFlags & flags, DemoOptions & options, const Model & model, const GatedDemo & gated,
                  const Tokenizer & tokenizer) {
    std::vector<DemoColumn> columns;
    int n_left_out = 0;
    {
        ProgressLine line("demo");
        const std::vector<bool> wanted = settings(flags);
        for (const bool question_aware : wanted) {
            const auto n_before = columns.size();
            options.progress = [&](int n_done, int n_total) {
                const double share = static_cast<double>(n_done) / n_total;
                line.show_fraction((static_cast<double>(n_before) + share) / static_cast<double>(wanted.size()));
            };
            options.question_aware = question_aware;
            options.left_out = [&](int n_texts, const std::string & why) {
                if (n_before > 0) { return; }  // the same texts, already named
                warn(why + ": " + std::to_string(n_texts) + (n_texts == 1 ? " text" : " texts") + " left out");
                n_left_out += n_texts;
            };
            auto rows = rows_of(model, gated, tokenizer, options);
            if (!rows.ok()) { return fail(rows.status()); }
            columns.push_back({question_aware, std::move(*rows)});
        }
    }
    options.n_samples -= n_left_out;  // from here on: the texts that were asked
    if (flags.json) {
        print_json(answers_json(options, flags.model.path, columns));
    } else if (flags.csv) {
        print_answers_csv(options, columns);
    } else {
        print_answers(options, flags.model.path, columns);
    }
    return kExitOk;
}

int measure_perplexity(const DemoFlags & flags, const DemoOptions & demo, const Model & model, const Tokenizer & tokenizer) {
    PerplexityOptions options = perplexity_options(demo);
    Result<std::vector<PerplexityRow>> rows = Status();
    {
        ProgressLine line("perplexity");
        options.progress = [&line](int n_done, int n_total) { line.show_fraction(static_cast<double>(n_done) / n_total); };
        rows = run_perplexity(model, tokenizer, options);
    }
    if (!rows.ok()) { return fail(rows.status()); }
    if (flags.json) {
        print_json(perplexity_json(options, flags.model.path, *rows));
    } else if (flags.csv) {
        print_perplexity_csv(*rows);
    } else {
        print_perplexity(options, flags.model.path, *rows);
    }
    return kExitOk;
}

int demo_command(DemoFlags flags) {
    GatedDemo gated(flags);
    if (const Status found = flags.model.find(); !found.ok()) { return fail_or_usage(found); }
    auto options = demo_options(flags);
    if (!options.ok()) { return fail_usage(options.status()); }
    const auto model = flags.model.load();
    if (!model.ok()) { return fail(model.status()); }
    const auto tokenizer = Tokenizer::load(flags.model.path);
    if (!tokenizer.ok()) { return fail(tokenizer.status()); }
    gated.load(flags.model);
    options->cancel = &catch_interrupt();
    return flags.perplexity ? measure_perplexity(flags, *options, *model, *tokenizer)
                            : ask_questions(flags, *options, *model, gated, *tokenizer);
}

}  // namespace

void add_demo_command(CLI::App & root, int & exit_code) {
    auto flags = std::make_shared<DemoFlags>();
    CLI::App * command = root.add_subcommand("demo", "Hide facts in long texts, ask for them under several policies");
    flags->model.add_to(*command, false);
    command->add_option("--budget", flags->budgets, "Budgets to compare")->delimiter(',')->capture_default_str();
    command->add_option("--policy", flags->policies,
                        "Policies to compare, separated by ','; all: every one there is, with --share");
    add_heads_option(*command, flags->heads);
    command->add_option("--task", flags->tasks, "Kinds of questions: single, multikey, multivalue, vt, cwe, facts")
        ->delimiter(',');
    command->add_option("--samples", flags->n_samples, "Texts");
    command->add_option("--tokens", flags->n_tokens, "Length of a text")->capture_default_str();
    command->add_option("-t,--threads", flags->n_threads, "Threads (default: one per core; 1 for models under 32 MiB)");
    command->add_option("-s,--seed", flags->seed, "Seed of the texts")->capture_default_str();
    command->add_flag("--question-aware", flags->question_aware,
                      "Only with the question in sight of the policies (default: that, and --context-only beside it)");
    command->add_flag("--context-only", flags->context_only, "Only with the text compressed before the question is known");
    command->add_flag("--share", flags->share,
                      "One prefill of each text for all policies and budgets: quicker, the same answers, no prefill speed");
    command->add_flag("--perplexity", flags->perplexity,
                      "Instead of questions: how well the rest of a held-out text is predicted");
    command->add_flag("--json", flags->json, "One JSON object on standard output");
    command->add_flag("--csv", flags->csv, "A line of comma-separated values for each row");
    command->callback([flags, &exit_code] { exit_code = demo_command(*flags); });
}

}  // namespace pith::app
