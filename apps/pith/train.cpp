// train.cpp - `pith train`: a model from a recipe, with checkpoints that go on where they stopped.
#include "train/train.h"

#include <unistd.h>

#include <cstdio>
#include <memory>
#include <string>
#include <thread>

#include "commands.h"
#include "errors.h"
#include "interrupt.h"
#include "progress.h"

namespace pith::app {
namespace {

struct TrainFlags {
    std::string recipe;
    std::string output;
    std::string work_dir;
    int n_threads = 0;
    bool restart = false;
};

std::string recipe_path(const std::string & name) {
    return name == "reference" ? std::string(PITH_SOURCE_MODELS) + "/pith-reference.json" : name;
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

int train_command(TrainFlags flags) {
    if (flags.n_threads < 0) { return fail_usage("--threads is " + std::to_string(flags.n_threads) + ": give 0 or more"); }
    train::TrainOptions options;
    options.recipe_path = recipe_path(flags.recipe);
    const auto recipe = train::read_recipe(options.recipe_path);
    if (!recipe.ok()) { return fail(recipe.status()); }
    options.output = flags.output.empty() ? recipe->name + ".gguf" : flags.output;
    options.work_dir = flags.work_dir.empty() ? options.output + ".work" : flags.work_dir;
    options.n_threads = flags.n_threads > 0 ? flags.n_threads : static_cast<int>(std::thread::hardware_concurrency());
    options.resume = !flags.restart;

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
    CLI::App * command = root.add_subcommand("train", "Train a model from a recipe; Ctrl-C stops it, the same command goes on");
    command->add_option("recipe", flags->recipe, "`reference`, or a recipe file (JSON)")->required();
    command->add_option("-o,--output", flags->output, "GGUF to write (default: the recipe's name)");
    command->add_option("--work-dir", flags->work_dir, "Folder of the checkpoints (default: OUTPUT.work)");
    command->add_option("-t,--threads", flags->n_threads, "Threads (default: one per core; 1 for models under 32 MiB)");
    command->add_flag("--restart", flags->restart, "Begin again although there is a checkpoint");
    command->callback([flags, &exit_code] { exit_code = train_command(*flags); });
}

}  // namespace pith::app
