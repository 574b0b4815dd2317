// demo.cpp - `pith demo`: what each policy still knows of a text several times longer than its budget.
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "app/demo/demo_report.h"
#include "app/shell/commands.h"
#include "app/shell/lab_program.h"
#include "common/base/errors.h"
#include "common/base/flag_names.h"
#include "common/base/interrupt.h"
#include "common/base/progress.h"
#include "common/base/reference_model.h"
#include "common/demo/demo_flags.h"
#include "engine/probe/demo.h"

namespace pith::app {
namespace {

// The built-in model with the gates that come with it, for one more row where nobody names a model or policies. A second load:
// gates would change what `auto` is.
struct GatedDemo {
    bool wanted = false;
    std::optional<Model> model;

    explicit GatedDemo(const DemoFlags & flags)
        : wanted(!flags.model.named() && flags.model.gate.empty() && flags.model.lora.empty() && flags.policies.empty()) {}

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
        const std::vector<bool> wanted = flags.settings();
        for (const bool question_aware : wanted) {
            const auto n_before = columns.size();
            options.progress = [&](int n_done, int n_total) {
                const double share = static_cast<double>(n_done) / n_total;
                line.show_fraction((static_cast<double>(n_before) + share) / static_cast<double>(wanted.size()));
            };
            options.question_aware = question_aware;
            options.left_out = [&](int n_texts, const Status & why) {
                if (n_before > 0) { return; }  // the same texts, already named
                warn(message_of(why) + ": " + std::to_string(n_texts) + (n_texts == 1 ? " text" : " texts") + " left out");
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

int demo_command(DemoFlags flags, const std::vector<std::string> & arguments) {
    if (flags.perplexity) { return start_lab("pith demo --perplexity", arguments); }
    GatedDemo gated(flags);
    if (const Status found = flags.model.find(); !found.ok()) { return fail_or_usage(found); }
    auto options = flags.options();
    if (!options.ok()) { return fail_usage(options.status()); }
    const auto model = flags.model.load();
    if (!model.ok()) { return fail(model.status()); }
    const auto tokenizer = Tokenizer::load(flags.model.path);
    if (!tokenizer.ok()) { return fail(tokenizer.status()); }
    gated.load(flags.model);
    options->cancel = &catch_interrupt();
    return ask_questions(flags, *options, *model, gated, *tokenizer);
}

}  // namespace

void add_demo_command(CLI::App & root, int & exit_code, const std::vector<std::string> & arguments) {
    auto flags = std::make_shared<DemoFlags>();
    CLI::App * command = root.add_subcommand("demo", "Hide facts in long texts, ask for them under several policies");
    flags->add_to(*command);
    command->callback([flags, &exit_code, &arguments] { exit_code = demo_command(*flags, arguments); });
}

}  // namespace pith::app
