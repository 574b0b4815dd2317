// train_gate.cpp - `pith train gate`: attention gates for a frozen model, with checkpoints that go on where they stopped.
#include "app/train/train_gate.h"

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "app/train/training_texts.h"
#include "app/train/tune_flags.h"
#include "common/base/errors.h"
#include "common/options/options.h"
#include "core/check.h"
#include "gate/gate_file.h"
#include "pith/text.h"
#include "train/graph/gate_parameters.h"

namespace pith::app {
namespace {

struct GateFlags {
    TuneFlags tune;
    std::string field = "text";
    std::string output;
    int64_t n_samples = 0;  // 0: all of a text, 5,000 of the generator
    bool untrained = false;
};

constexpr int64_t kPaperSamples = 5000;

Result<std::unique_ptr<train::Samples>> make_samples(const GateFlags & flags) {
    const TuneFlags & tune = flags.tune;
    if (tune.texts.empty()) {
        train::GeneratedText options;
        options.n_tokens = tune.n_tokens;
        options.n_samples = flags.n_samples > 0 ? flags.n_samples : kPaperSamples;
        options.seed = tune.options.seed;
        options.tasks = {{"single", 0.1}, {"multikey", 0.1}, {"multivalue", 0.1}, {"vt", 0.1}, {"facts", 0.1}};
        auto samples = train::make_generated_samples(tune.model, options);
        if (samples.status().code() != ErrorCode::kUnsupported) { return samples; }
        return {ErrorCode::kUnsupported, samples.status().wording() + ": give your own with -f TEXT"};
    }
    PITH_ASSIGN_OR_RETURN(const std::vector<std::string> texts, read_training_texts(tune.texts, flags.field));
    PITH_ASSIGN_OR_RETURN(const Tokenizer tokenizer, Tokenizer::load(tune.model));
    std::vector<std::vector<int32_t>> tokens;
    for (const std::string & text : texts) {
        if (text.empty()) { continue; }
        PITH_ASSIGN_OR_RETURN(std::vector<int32_t> one, tokenizer.encode(text, true, false));
        tokens.push_back(std::move(one));
    }
    return train::make_token_samples(tokens, {tune.n_tokens, flags.n_samples, tune.options.seed});
}

// Gates as training begins with them: for what does not depend on what they learn, such as their cost.
int write_untrained(const ModelFile & file, const train::TuneOptions & options) {
    std::error_code error;
    if (std::filesystem::exists(options.output, error)) {
        return fail({ErrorCode::kInvalidArgument, "'" + options.output + "' exists: name another file with -o"});
    }
    GateWeights weights;
    const auto parameters = train::make_gate_parameters(options.gate, file.hparams(), weights);
    if (!parameters.ok()) { return fail(parameters.status()); }
    (*parameters)->initialise(options.seed);
    const GateTraining none{.retention = 1.0F};
    if (const Status status = save_gate(options.output, options.gate, weights, none, file); !status.ok()) {
        return fail(status);
    }
    std::fprintf(stderr, "%s: %lld parameters, untrained\n", options.output.c_str(),
                 static_cast<long long>((*parameters)->n_params()));
    return kExitOk;
}

int gate_command(GateFlags flags) {
    if (const Status status = check_at_least("--samples", flags.n_samples, 0); !status.ok()) { return fail_usage(status); }
    TuneFlags & tune = flags.tune;
    if (flags.untrained && !tune.texts.empty()) { return fail_usage("--untrained reads no text: leave out -f"); }
    const auto file = tune.load();
    if (!file.ok()) { return fail(file.status()); }
    tune.options.output = flags.output.empty() ? tune.stem() + ".gate.gguf" : flags.output;
    tune.options.work_dir = tune.work_dir.empty() ? tune.options.output + ".work" : tune.work_dir;
    if (const Status status = tune.complete((*file)->hparams()); !status.ok()) { return fail(status); }
    if (flags.untrained) { return write_untrained(**file, tune.options); }
    auto samples = make_samples(flags);
    if (!samples.ok()) { return fail(samples.status()); }
    return run_tune(**file, **samples, tune.options);
}

}  // namespace

void add_train_gate_command(CLI::App & train, int & exit_code) {
    auto flags = std::make_shared<GateFlags>();
    CLI::App * command = train.add_subcommand(
        "gate", "Attention gates that learn what to evict; the model stays as it is. Ctrl-C stops, the same command goes on");
    add(*command, option("--file"), flags->tune.texts,
        "Text, or JSON lines (*.jsonl); several times for several files (default: generated text, for the built-in model)")
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    command->add_option("--field", flags->field, "Field of the JSON lines that holds the text")->capture_default_str();
    command->add_option("-o,--output", flags->output, "Gate file to write (default: MODEL.gate.gguf beside MODEL.gguf)");
    command->add_option("--samples", flags->n_samples,
                        "Sequences of an epoch (default: all of the text; 5,000 generated ones)");
    command->add_flag(
        "--untrained", flags->untrained,
        "Write gates as training begins with them and stop; with --gamma 0 they evict about half: for `pith bench`");
    flags->tune.add_gate_options(*command);
    flags->tune.add_run_options(*command);
    command->callback([flags, &exit_code] { exit_code = gate_command(*flags); });
}

}  // namespace pith::app
