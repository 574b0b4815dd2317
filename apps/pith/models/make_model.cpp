// make_model.cpp - `pith make-model`: GGUF files of real shapes with random weights, to measure speed with.
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "app/shell/commands.h"
#include "common/base/errors.h"
#include "common/base/interrupt.h"
#include "common/base/ledger_report.h"
#include "common/base/progress.h"
#include "file/written_pages.h"
#include "model/random/random_model.h"

namespace pith::app {
namespace {

struct MakeModelFlags {
    std::string shape;
    std::string type = "q8_0";
    std::string output;
    uint64_t seed = 1;
    std::optional<int> n_layers;  // none: as many as the shape has
    bool force = false;
};

int make_model_command(const MakeModelFlags & flags) {
    auto spec = shape_preset(flags.shape);
    if (!spec.ok()) { return fail_usage(spec.status()); }
    spec->weight_type = flags.type;
    spec->seed = flags.seed;
    if (flags.n_layers) { spec->n_layers = *flags.n_layers; }
    std::error_code error;
    if (!flags.force && std::filesystem::exists(flags.output, error)) {
        return fail({ErrorCode::kInvalidArgument, "'" + flags.output + "' exists: add --force to write over it"});
    }
    const auto & cancel = catch_interrupt();
    Status status;
    {
        ProgressLine line("writing");
        status = write_random_model(*spec, flags.output, [&](double fraction) {
            line.show_fraction(fraction);
            return !cancel.load();
        });
    }
    if (!status.ok()) { return fail(status); }
    drop_written_pages(flags.output);
    const auto size = std::filesystem::file_size(flags.output, error);
    std::fprintf(stderr, "%s: %s of random weights\n", flags.output.c_str(), error ? "?" : bytes_text(size).c_str());
    return kExitOk;
}

}  // namespace

void add_make_model_command(CLI::App & root, int & exit_code) {
    auto flags = std::make_shared<MakeModelFlags>();
    CLI::App * command = root.add_subcommand("make-model", "Write a GGUF of a real shape with random weights");
    command->add_option("shape", flags->shape, shape_names())->required();
    command->add_option("--type", flags->type, "Type of the weights, f16, q8_0, q4_0, …, or a mixture: q4_K_M, mxfp4_moe")
        ->capture_default_str();
    command->add_option("-o,--output", flags->output, "File to write")->required();
    command->add_option("--seed", flags->seed, "Seed of the weights")->capture_default_str();
    command->add_option("--layers", flags->n_layers, "Layers (default: as many as the shape has)");
    command->add_flag("--force", flags->force, "Write over a file that exists");
    command->callback([flags, &exit_code] { exit_code = make_model_command(*flags); });
}

}  // namespace pith::app
