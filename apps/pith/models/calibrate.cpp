// calibrate.cpp - `pith calibrate`, and `pith calibrate heads`: measures which heads retrieve, for policies that divide the
// budget by head.
#include "engine/probe/calibrate.h"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include "app/models/calibrate.h"
#include "app/shell/commands.h"
#include "common/base/errors.h"
#include "common/base/interrupt.h"
#include "common/base/ledger_report.h"
#include "common/base/progress.h"
#include "common/flags/engine_flags.h"
#include "common/options/options.h"
#include "core/check.h"
#include "core/stopwatch.h"
#include "engine/parts/model_parts.h"
#include "file/can_write.h"
#include "model/head_importance_file.h"

namespace pith::app {
namespace {

struct CalibrateFlags {
    ModelFlags model;
    std::string output;
    CalibrateOptions options;
    bool json = false;
};

// How far it is; where stderr is no terminal, first how long it will take, then a line every half minute.
class CalibrationProgress {
public:
    void show(int64_t n_done, int64_t n_total) {
        if (line_.visible()) { return line_.show_tokens(n_done, n_total); }
        const double seconds = watch_.seconds();
        if (!told_ && seconds > kSecondsToTell) {
            const double left = seconds * static_cast<double>(n_total - n_done) / static_cast<double>(n_done);
            if (left > kSecondsToTell) {
                std::fprintf(stderr, "calibrating: %lld tokens to read, about %.0f s left\n", static_cast<long long>(n_total),
                             left);
            }
            told_ = seconds;
        }
        if (told_ && seconds - *told_ > kSecondsBetween) { line_.show_tokens(n_done, n_total); }
    }

private:
    static constexpr double kSecondsToTell = 3;
    static constexpr double kSecondsBetween = 30;
    ProgressLine line_{"calibrating"};
    Stopwatch watch_;
    std::optional<double> told_;
};

// A line for each layer that policies govern.
void print_map(const std::vector<double> & scores, const Hparams & hparams) {
    const auto n_heads = static_cast<size_t>(hparams.n_heads);
    for (const int layer : hparams.governed_layers()) {
        std::printf("layer %3d ", layer);
        for (size_t g = 0; g < n_heads; ++g) { std::printf(" %5.3f", scores[static_cast<size_t>(layer) * n_heads + g]); }
        std::puts("");
    }
}

void print_report(const Calibration & done, const Hparams & hparams, const std::string & output) {
    std::printf("copy: share of the answers' tokens that a head's strongest entry in the needle held\n");
    print_map(done.heads.copy, hparams);
    std::printf("\nreason: attention mass of a head's strongest entries that lay in the needle\n");
    print_map(done.heads.reason, hparams);
    if (!hparams.governs_all()) {
        std::printf("\nnot measured, since policies do not govern them: %s\n", hparams.ungoverned());
    }
    std::printf("\n%d probes, %lld answer tokens, %.0f %% of them the model's own choice; written to %s\n", done.probes.count,
                static_cast<long long>(done.n_tokens), 100 * done.foretold, output.c_str());
}

// A line for each length that some probes do not fit; how many there are is also in the JSON.
void warn_of_probes_left_out(const Calibration & done, int n_tokens) {
    for (const ProbesLeftOut & missing : done.left_out) {
        warn(std::to_string(missing.count) + (missing.count == 1 ? " probe of " : " probes of ") +
             std::to_string(missing.length) + " tokens left out: " + missing.why + "; raise --tokens (" +
             std::to_string(n_tokens) + "; a third of the probes each have a half and a quarter of it)");
    }
}

int count_left_out(const Calibration & done) {
    int n = 0;
    for (const ProbesLeftOut & missing : done.left_out) { n += missing.count; }
    return n;
}

Json to_json(const Calibration & done, const std::string & model, const std::string & output) {
    Json object;
    object["model"] = model;
    object["file"] = output;
    object["n_samples"] = done.probes.count;
    object["n_left_out"] = count_left_out(done);
    object["lengths"] = done.probes.lengths;
    object["seed"] = done.probes.seed;
    object["n_answer_tokens"] = done.n_tokens;
    object["foretold"] = done.foretold;
    object["copy"] = done.heads.copy;
    object["reason"] = done.heads.reason;
    return object;
}

int calibrate_command(CalibrateFlags flags) {
    if (const Status status = check_at_least("--samples", flags.options.n_samples, 1); !status.ok()) {
        return fail_usage(status);
    }
    if (const Status status = check_at_least("--threads", flags.options.n_threads, 0); !status.ok()) {
        return fail_usage(status);
    }
    if (const Status found = flags.model.find(); !found.ok()) { return fail_or_usage(found); }
    const auto model = flags.model.load();
    if (!model.ok()) { return fail(model.status()); }
    const auto tokenizer = Tokenizer::load(flags.model.path);
    if (!tokenizer.ok()) { return fail(tokenizer.status()); }
    if (flags.output.empty()) { flags.output = default_heads_path(file_of(*model).path()); }
    if (const Status status = check_can_write(flags.output); !status.ok()) { return fail(status); }
    flags.options.cancel = &catch_interrupt();
    Result<Calibration> done = Status();
    {
        CalibrationProgress progress;
        flags.options.progress = [&progress](int64_t n_done, int64_t n_total) { progress.show(n_done, n_total); };
        done = calibrate_heads(*model, *tokenizer, flags.options);
    }
    if (!done.ok()) { return fail(done.status()); }
    warn_of_probes_left_out(*done, flags.options.n_tokens);
    if (const Status status = save_head_importance(flags.output, done->heads, done->probes, file_of(*model)); !status.ok()) {
        return fail(status);
    }
    if (done->foretold < 0.5) {
        char text[160];
        std::snprintf(
            text, sizeof text,
            "the model would have said only %.0f %% of the answers' tokens itself: it hardly retrieves at %d tokens, and "
            "its heads' scores mean little",
            100 * done->foretold, flags.options.n_tokens);
        warn(text);
    }
    if (flags.json) {
        print_json(to_json(*done, flags.model.path, flags.output));
    } else {
        print_report(*done, file_of(*model).hparams(), flags.output);
    }
    return kExitOk;
}

}  // namespace

void add_calibrate_command(CLI::App & root, int & exit_code) {
    auto flags = std::make_shared<CalibrateFlags>();
    CLI::App * calibrate = root.add_subcommand("calibrate", "Measure what some policies must know of a model beforehand");
    calibrate->require_subcommand(0, 1);
    calibrate->callback([calibrate, &exit_code] {
        if (!calibrate->get_subcommands().empty()) { return; }
        exit_code = fail_usage("say what to calibrate: `pith calibrate heads -m MODEL`, or `importance`");
    });
    CLI::App * heads = calibrate->add_subcommand("heads", "Which heads retrieve: for headkv, duo and the like");
    flags->model.add_to(*heads);
    heads->add_option("-o,--output", flags->output, "File to write (default: MODEL.heads.json beside MODEL.gguf)");
    heads->add_option("--samples", flags->options.n_samples, "Probes; four to a text")->capture_default_str();
    add(*heads, option("--tokens"), flags->options.n_tokens, "Length of the longest texts")->capture_default_str();
    add(*heads, option("--seed"), flags->options.seed, "Seed of the probes")->capture_default_str();
    add(*heads, option("--threads"), flags->options.n_threads);
    add(*heads, option("--json"), flags->json);
    heads->callback([flags, &exit_code] { exit_code = calibrate_command(*flags); });
    add_calibrate_importance_command(*calibrate, exit_code);
}

}  // namespace pith::app
