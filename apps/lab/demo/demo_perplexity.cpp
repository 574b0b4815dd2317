// demo_perplexity.cpp - `pith demo --perplexity`: how well policies predict the rest of a held-out text.
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "app/shell/commands.h"
#include "common/base/errors.h"
#include "common/base/interrupt.h"
#include "common/base/ledger_report.h"
#include "common/base/progress.h"
#include "common/base/text_columns.h"
#include "common/demo/demo_flags.h"
#include "common/demo/demo_rows.h"
#include "core/csv_field.h"
#include "eval/perplexity.h"

namespace pith::app {
namespace {

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

void print_perplexity(const PerplexityOptions & options, const std::string & model_path,
                      const std::vector<PerplexityRow> & rows) {
    std::printf("%s: perplexity of the %d tokens after a prompt of %d, compressed once; %d held-out texts.\n\n",
                std::filesystem::path(model_path).filename().c_str(), options.n_continuation, options.n_tokens,
                options.n_texts);
    const int width = policy_width(rows);
    std::printf("%-*s  %8s  %13s  %10s  %10s  %18s\n", width, "policy", "budget", "tokens/head", "perplexity", "- full",
                "95 %");
    std::string budget = rows.empty() ? "" : rows.front().budget;
    for (const PerplexityRow & row : rows) {
        begin_row(row, budget, width);
        if (!row.note.empty()) {
            std::printf("  %s\n", row.note.c_str());
            continue;
        }
        char range[48];
        std::snprintf(range, sizeof range, "%+.3f to %+.3f", row.difference_interval.low, row.difference_interval.high);
        std::printf("  %13.0f  %10.3f  %+10.3f  %18s\n", row.kept_entries, row.perplexity, row.difference, range);
    }
}

Json perplexity_json(const PerplexityOptions & options, const std::string & model_path,
                     const std::vector<PerplexityRow> & rows) {
    Json object;
    object["model"] = model_path;
    object["n_texts"] = options.n_texts;
    object["n_tokens"] = options.n_tokens;
    object["n_continuation"] = options.n_continuation;
    object["seed"] = options.seed;
    object["rows"] = Json::array();
    for (const PerplexityRow & row : rows) {
        Json out = {{"policy", row.policy}, {"budget", row.budget}, {"n_texts", row.n_texts}};
        if (row.note.empty()) {
            out["kept_entries_per_lane"] = row.kept_entries;
            out["perplexity"] = row.perplexity;
            out["difference"] = row.difference;
            out["difference_low"] = row.difference_interval.low;
            out["difference_high"] = row.difference_interval.high;
        } else {
            out["note"] = row.note;
        }
        object["rows"].push_back(std::move(out));
    }
    return object;
}

void print_perplexity_csv(const std::vector<PerplexityRow> & rows) {
    std::puts("policy,budget,n_texts,kept_entries_per_lane,perplexity,difference,difference_low,difference_high,note");
    for (const PerplexityRow & row : rows) {
        if (!row.note.empty()) {  // it could not be measured
            std::printf("%s,%s,%d,,,,,,%s\n", csv_field(row.policy).c_str(), row.budget.c_str(), row.n_texts,
                        csv_field(row.note).c_str());
            continue;
        }
        std::printf("%s,%s,%d,%.2f,%.6f,%.6f,%.6f,%.6f,%s\n", csv_field(row.policy).c_str(), row.budget.c_str(), row.n_texts,
                    row.kept_entries, row.perplexity, row.difference, row.difference_interval.low, row.difference_interval.high,
                    csv_field(row.note).c_str());
    }
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
    if (!flags.perplexity) { return fail_usage("questions are asked by `pith demo`; here give --perplexity"); }
    if (const Status found = flags.model.find(); !found.ok()) { return fail_or_usage(found); }
    auto options = flags.options();
    if (!options.ok()) { return fail_usage(options.status()); }
    const auto model = flags.model.load();
    if (!model.ok()) { return fail(model.status()); }
    const auto tokenizer = Tokenizer::load(flags.model.path);
    if (!tokenizer.ok()) { return fail(tokenizer.status()); }
    options->cancel = &catch_interrupt();
    return measure_perplexity(flags, *options, *model, *tokenizer);
}

}  // namespace

void add_demo_command(CLI::App & root, int & exit_code) {
    auto flags = std::make_shared<DemoFlags>();
    CLI::App * command = root.add_subcommand("demo", "How well policies predict the rest of held-out texts");
    flags->add_to(*command);
    command->callback([flags, &exit_code] { exit_code = demo_command(*flags); });
}

}  // namespace pith::app
