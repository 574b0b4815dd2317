// tune_flags.cpp - what `pith train gate` and `pith train sft` share.
#include "app/train/tune_flags.h"

#include <algorithm>
#include <cstdio>

#include "common/base/errors.h"
#include "common/base/interrupt.h"
#include "common/base/progress.h"
#include "common/base/reference_model.h"
#include "common/flags/device_flags.h"
#include "common/models/model_source.h"
#include "common/options/options.h"
#include "core/check.h"
#include "device/cpu_count.h"
#include "gate/gate_config.h"

namespace pith::app {
namespace {

constexpr double kMiB = 1024.0 * 1024.0;

std::string time_text(double seconds) {
    char text[32];
    if (seconds < 120) {
        std::snprintf(text, sizeof text, "%.0f s", seconds);
    } else {
        std::snprintf(text, sizeof text, "%.0f min", seconds / 60);
    }
    return text;
}

std::string percent_list(const std::vector<double> & shares) {
    std::string out;
    for (const double share : shares) {
        char text[16];
        std::snprintf(text, sizeof text, "%s%.0f", out.empty() ? "" : " ", 100 * share);
        out += text;
    }
    return out;
}

bool print_plan(const train::TunePlan & plan) {
    std::fprintf(
        stderr,
        "%lld parameters to learn in %lld steps of %lld tokens in all; memory about %.0f MiB (weights %.0f, what learns "
        "%.0f, activations %.0f); time about %s\n",
        static_cast<long long>(plan.n_params), static_cast<long long>(plan.n_steps), static_cast<long long>(plan.n_tokens),
        static_cast<double>(plan.weight_bytes + plan.parameter_bytes + plan.graph_bytes) / kMiB,
        static_cast<double>(plan.weight_bytes) / kMiB, static_cast<double>(plan.parameter_bytes) / kMiB,
        static_cast<double>(plan.graph_bytes) / kMiB, time_text(plan.seconds).c_str());
    return true;
}

void show_progress(ProgressLine & line, const train::TuneProgress & p) {
    char gates[96] = "";
    if (!p.retention.empty()) {
        std::snprintf(gates, sizeof gates, " + %.3f, kept %.0f %% (%s)", p.eviction_loss, 100 * p.mean_retention(),
                      percent_list(p.retention).c_str());
    }
    char text[240];
    std::snprintf(text, sizeof text, "step %lld of %lld, loss %.3f%s, %.0f t/s, %s left", static_cast<long long>(p.step),
                  static_cast<long long>(p.n_steps), p.loss, gates, p.tokens_per_second, time_text(p.seconds_left).c_str());
    line.show_text(text);
}

void print_validation(const train::TuneValidation & v) {
    std::printf("step %lld: held-out loss %.4f (before %.4f), tokens right %.1f %% (before %.1f %%)",
                static_cast<long long>(v.step), v.loss, v.loss_before, 100 * v.hits, 100 * v.hits_before);
    if (!v.retention.empty()) {
        double kept = 0;
        for (const double share : v.retention) { kept += share / static_cast<double>(v.retention.size()); }
        std::printf(", kept %.1f %% (by layer %s)", 100 * kept, percent_list(v.retention).c_str());
    }
    std::puts("");
    std::fflush(stdout);
}

}  // namespace

void TuneFlags::add_gate_options(CLI::App & command) {
    GateConfig & gate = options.gate;
    command.add_option("--kind", kind, "`attention`, or `linear`: each token by itself")->capture_default_str();
    command.add_option("--heads", n_heads, "Heads of the gate's attention (default: an eighth of the model's, at least 2)")
        ->check(CLI::PositiveNumber);
    command.add_option("--head-dim", head_dim, "Their size (default: the model's head size)");
    command.add_option("--source", source, "Whose input a gate reads: its `own` layer's, or the `previous` one's")
        ->capture_default_str();
    command.add_option("--first-layer", first_layer, "Layers before it evict nothing (default: 0, or 1 for `previous`)");
    add(command, option("--causal"), gate.causal);
    command.add_option("--recent", gate.n_recent, "Keys a query sees whatever the gates say, its own included")
        ->capture_default_str();
    command.add_option("--tau", gate.tau, "Retention probability above which an entry is kept")->capture_default_str();
    command.add_option("--gamma", gate.gamma, "Added to a gate's logit: at first nearly all is kept")->capture_default_str();
    command.add_option("--alpha", options.loss.alpha, "Weight of the eviction loss")->capture_default_str();
    command.add_option("--beta", options.loss.beta, "Mean retention probability that the eviction loss asks for, at most tau")
        ->capture_default_str();
}

void TuneFlags::add_run_options(CLI::App & command) {
    add(command, option("--model"), model, "GGUF file, or a model by its name in `pith models` (default: the built-in one)");
    command.add_option("--work-dir", work_dir, "Folder of the checkpoint (default: beside the output)");
    add(command, option("--tokens"), n_tokens, "Tokens of a sequence")->capture_default_str();
    command.add_option("--sequences", options.n_sequences, "Sequences of a step")->capture_default_str();
    command.add_option("--epochs", options.n_epochs, "Times the text is read")->capture_default_str();
    command.add_option("--learning-rate", options.learning_rate, "At first; it falls to a tenth")->capture_default_str();
    command.add_option("--checkpoint-every", options.checkpoint_every, "Steps")->capture_default_str();
    add(command, option("--seed"), options.seed, "Of the first values and of the order of the text")->capture_default_str();
    add(command, option("--threads"), n_threads, "Threads (default: one per core)");
    command.add_flag("--f32", f32, "Products in f32, not in bf16, where the processor has a matrix unit");
    command.add_flag("--restart", restart, "Begin again although there is a checkpoint");
    refuse_devices(command);
}

Result<std::shared_ptr<ModelFile>> TuneFlags::load() {
    PITH_ASSIGN_OR_RETURN(model, model.empty() ? reference_model() : find_model_file(model));
    ModelFileOptions plain;
    plain.repack = false;  // repacked weights cannot be read back
    return ModelFile::load(model, plain);
}

std::string TuneFlags::stem() const {
    return model.ends_with(".gguf") ? model.substr(0, model.size() - 5) : model;
}

Status TuneFlags::complete(const Hparams & hparams) {
    PITH_RETURN_IF_ERROR(check_at_least("--threads", n_threads, 0));
    GateConfig & gate = options.gate;
    PITH_ASSIGN_OR_RETURN(gate.kind, parse_gate_kind(kind));
    PITH_ASSIGN_OR_RETURN(gate.source, parse_gate_source(source));
    // The paper's share: 4 beside a model of 32. What a gate costs grows with its heads, whatever the model's size.
    gate.n_heads = n_heads != 0 ? n_heads : std::max(2, hparams.n_heads / 8);
    gate.head_dim = head_dim != 0 ? head_dim : hparams.head_dim;
    gate.first_layer = first_layer >= 0 ? first_layer : gate.source == GateSource::kPrevious ? 1 : 0;
    options.n_threads = n_threads > 0 ? n_threads : available_cpus();
    options.bf16 = !f32;
    options.resume = !restart;
    return check(options, hparams);
}

int run_tune(const ModelFile & file, train::Samples & samples, const train::TuneOptions & options) {
    const auto & cancel = catch_interrupt();
    Status status;
    {
        ProgressLine line("train");
        train::TuneHooks hooks;
        hooks.plan = [&](const train::TunePlan & plan) { return print_plan(plan) && !cancel.load(); };
        hooks.progress = [&](const train::TuneProgress & progress) {
            show_progress(line, progress);
            return !cancel.load();
        };
        hooks.validation = print_validation;
        hooks.note = [](const std::string & text) { std::fprintf(stderr, "%s\n", text.c_str()); };
        status = train::tune(file, samples, options, hooks);
    }
    if (!status.ok()) { return fail(status); }
    if (options.lora.rank > 0) { std::fprintf(stderr, "%s written\n", options.lora_output.c_str()); }
    if (options.gates) { std::fprintf(stderr, "%s written\n", options.output.c_str()); }
    return kExitOk;
}

}  // namespace pith::app
