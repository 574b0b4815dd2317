// train.cpp - `pith train`: a model from a recipe, with checkpoints that go on where they stopped.
#include "train/train.h"

#include <unistd.h>

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "app/shell/commands.h"
#include "app/train/train_figure.h"
#include "app/train/train_gate.h"
#include "app/train/train_pairs.h"
#include "app/train/train_sft.h"
#include "common/base/errors.h"
#include "common/base/interrupt.h"
#include "common/base/lab_words.h"
#include "common/base/progress.h"
#include "common/base/reference_model.h"
#include "common/flags/device_flags.h"
#include "common/options/options.h"
#include "core/check.h"
#include "device/cpu_count.h"

namespace pith::app {
namespace {

struct TrainFlags {
    std::string recipe;
    std::string output;
    std::string work_dir;
    int n_threads = 0;
    bool restart = false;
    int n_evaluate = 0;  // samples a cell; 0: train
    std::string figure;  // SVG of the run's curve; empty: train
    std::vector<int> lengths = {512, 1024, 2048};
};

// The built-in models' recipes by their names, others by their paths.
Result<std::string> recipe_path(const std::string & name) {
    const bool built_in = name == "reference" || name == "second";
    return built_in ? built_in_file("pith-" + name + ".json") : name;
}

void print_validation(const train::ValidationReport & report) {
    std::printf("step %lld, length %d: held-out loss %.4f, %.1f %% of the answers' tokens right",
                static_cast<long long>(report.step), report.n_tokens, report.loss, 100 * report.answer_hits);
    for (const auto & [kind, hits] : report.hits_by_kind) { std::printf(", %s %.1f %%", kind.c_str(), 100 * hits); }
    std::puts("");
    std::fflush(stdout);
}

void show_progress(ProgressLine & line, const train::TrainProgress & progress) {
    char text[160];
    std::snprintf(
        text, sizeof text, "stage %d of %d (length %d), step %lld of %lld, loss %.3f, %.0f t/s, %.0f s left in this stage",
        progress.stage + 1, progress.n_stages, progress.n_tokens, static_cast<long long>(progress.step),
        static_cast<long long>(progress.n_steps), progress.loss, progress.tokens_per_second, progress.stage_seconds_left);
    line.show_text(text);
}

// A row for each task and length; then perplexity.
int evaluate_command(const train::Recipe & recipe, const train::TrainOptions & options, const TrainFlags & flags) {
    const auto evaluation =
        train::evaluate_checkpoint(recipe, options, flags.lengths, flags.n_evaluate,
                                   [](const std::string & text) { std::fprintf(stderr, "%s\n", text.c_str()); });
    if (!evaluation.ok()) { return fail(evaluation.status()); }
    std::puts("task          tokens   samples   answers exact");
    for (const train::TaskAccuracy & task : evaluation->tasks) {
        std::printf("%-12s %7d %9d %13.1f %%\n", task.id.c_str(), task.n_tokens, task.n_samples, 100 * task.exact);
    }
    for (const auto & [n_tokens, perplexity] : evaluation->perplexity) {
        std::printf("perplexity   %7d %25.3f\n", n_tokens, perplexity);
    }
    return kExitOk;
}

int train_command(TrainFlags flags) {
    if (flags.recipe.empty()) {
        return fail_usage("say what to train: `pith train gate -m MODEL`, `pith train reference` or `pith train RECIPE.json`");
    }
    if (flags.n_evaluate < 0) {
        return fail_usage("--evaluate is " + std::to_string(flags.n_evaluate) + ": give the samples of a task, 1 or more");
    }
    if (const Status status = check_at_least("--threads", flags.n_threads, 0); !status.ok()) { return fail_usage(status); }
    train::TrainOptions options;
    const auto recipe_file = recipe_path(flags.recipe);
    if (!recipe_file.ok()) { return fail(recipe_file.status()); }
    options.recipe_path = *recipe_file;
    const auto recipe = train::read_recipe(options.recipe_path);
    if (!recipe.ok()) { return fail(recipe.status()); }
    options.output = flags.output.empty() ? recipe->name + ".gguf" : flags.output;
    options.work_dir = flags.work_dir.empty() ? options.output + ".work" : flags.work_dir;
    options.n_threads = flags.n_threads > 0 ? flags.n_threads : available_cpus();
    options.resume = !flags.restart;
    if (flags.n_evaluate > 0) { return evaluate_command(*recipe, options, flags); }
    if (!flags.figure.empty()) { return draw_training_curve(train::curve_path(options), recipe->name, flags.figure); }

    const auto & cancel = catch_interrupt();
    Status status;
    {
        ProgressLine line("train");
        train::TrainHooks hooks;
        hooks.progress = [&](const train::TrainProgress & progress) {
            show_progress(line, progress);
            return !cancel.load();
        };
        hooks.validation = print_validation;
        hooks.note = [](const std::string & text) { std::fprintf(stderr, "%s\n", text.c_str()); };
        status = train::train(*recipe, options, hooks);
    }
    if (!status.ok()) { return fail(status); }
    std::fprintf(stderr, "%s written\n", options.output.c_str());
    return kExitOk;
}

}  // namespace

void add_train_command(CLI::App & root, int & exit_code) {
    auto flags = std::make_shared<TrainFlags>();
    CLI::App * command = root.add_subcommand(kTrainWord.name, kTrainWord.help);
    command->add_option("recipe", flags->recipe, "`reference` or `second` (the built-in models), or a recipe file (JSON)");
    command->add_option("-o,--output", flags->output, "GGUF to write (default: the recipe's name)");
    command->add_option("--work-dir", flags->work_dir, "Folder of the checkpoints (default: OUTPUT.work)");
    add(*command, option("--threads"), flags->n_threads, "Threads (default: one per core)");
    command->add_flag("--restart", flags->restart, "Begin again although there is a checkpoint");
    command->add_option("--evaluate", flags->n_evaluate,
                        "Do not train: measure the checkpoint on so many samples of each task");
    command->add_option("--figure", flags->figure, "Do not train: draw what the run measured of itself so far (SVG)");
    command->add_option("--lengths", flags->lengths, "Lengths to evaluate at, separated by ','")
        ->delimiter(',')
        ->capture_default_str();
    refuse_devices(*command);
    add_train_gate_command(*command, exit_code);
    add_train_sft_command(*command, exit_code);
    add_train_pairs_command(*command, exit_code);
    command->require_subcommand(0, 1);
    command->callback([flags, command, &exit_code] {
        if (command->get_subcommands().empty()) { exit_code = train_command(*flags); }
    });
}

}  // namespace pith::app
