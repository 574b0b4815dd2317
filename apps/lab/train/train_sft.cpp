// train_sft.cpp - `pith train sft`: fine-tunes a LoRA adapter on prompts with completions, with gates beside it.
#include "app/train/train_sft.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "app/train/training_texts.h"
#include "app/train/tune_flags.h"
#include "common/base/errors.h"
#include "common/options/options.h"
#include "core/check.h"
#include "pith/text.h"

namespace pith::app {
namespace {

struct SftFlags {
    TuneFlags tune;
    std::string prompt_field = "prompt";
    std::string completion_field = "completion";
    std::string task;
    std::string output;
    int64_t n_samples = 2000;
    bool no_gates = false;
};

Result<std::unique_ptr<train::Samples>> make_task_samples(const SftFlags & flags) {
    train::GeneratedText options;
    options.n_tokens = flags.tune.n_tokens;
    options.n_samples = flags.n_samples;
    options.seed = flags.tune.options.seed;
    options.tasks = {{flags.task, 1.0}};
    options.prompt_weight = 0.0F;
    return train::make_generated_samples(flags.tune.model, options);
}

Result<std::unique_ptr<train::Samples>> make_samples(const SftFlags & flags) {
    if (!flags.task.empty()) { return make_task_samples(flags); }
    PITH_ASSIGN_OR_RETURN(const std::vector<TextPair> texts,
                          read_training_pairs(flags.tune.texts, flags.prompt_field, flags.completion_field));
    PITH_ASSIGN_OR_RETURN(const Tokenizer tokenizer, Tokenizer::load(flags.tune.model));
    std::vector<train::PromptPair> pairs;
    for (const TextPair & text : texts) {
        train::PromptPair pair;
        PITH_ASSIGN_OR_RETURN(pair.prompt, tokenizer.encode(text.prompt, true, true));
        PITH_ASSIGN_OR_RETURN(pair.completion, tokenizer.encode(text.completion, false, true));
        if (tokenizer.eos() >= 0 && !text.completion.empty()) { pair.completion.push_back(tokenizer.eos()); }
        pairs.push_back(std::move(pair));
    }
    size_t n_left_out = 0;
    auto samples = train::make_pair_samples(pairs, {flags.tune.n_tokens, flags.tune.options.seed}, &n_left_out);
    if (samples.ok() && n_left_out > 0) {
        warn(std::to_string(n_left_out) + " of " + std::to_string(pairs.size()) + " pairs are empty or longer than " +
             std::to_string(flags.tune.n_tokens) + " tokens (--tokens): left out");
    }
    return samples;
}

int sft_command(SftFlags flags) {
    TuneFlags & tune = flags.tune;
    if (flags.task.empty() == tune.texts.empty()) {
        return fail_usage(
            "give prompts with completions (-f PAIRS.jsonl), or for the built-in model one of its tasks (--task)");
    }
    if (const Status status = check_at_least("--rank", tune.options.lora.rank, 1); !status.ok()) { return fail_usage(status); }
    const auto file = tune.load();
    if (!file.ok()) { return fail(file.status()); }
    const std::string prefix = flags.output.empty() ? tune.stem() + ".sft" : flags.output;
    tune.options.gates = !flags.no_gates;
    tune.options.output = prefix + ".gate.gguf";
    tune.options.lora_output = prefix + ".lora.gguf";
    tune.options.work_dir = tune.work_dir.empty() ? prefix + ".work" : tune.work_dir;
    if (const Status status = tune.complete((*file)->hparams()); !status.ok()) { return fail(status); }
    auto samples = make_samples(flags);
    if (!samples.ok()) { return fail(samples.status()); }
    return run_tune(**file, **samples, tune.options);
}

}  // namespace

void add_train_sft_command(CLI::App & train, int & exit_code) {
    auto flags = std::make_shared<SftFlags>();
    train::TuneOptions & options = flags->tune.options;
    options.lora.rank = 8;
    options.gate.tau = 0.3F;  // the paper's fine-tuning (section 4.2)
    options.gate.gamma = 0.0F;
    options.loss = {1.0F, 0.28F};
    options.learning_rate = 5e-5F;
    options.n_epochs = 2;
    CLI::App * command = train.add_subcommand(
        "sft", "A LoRA adapter on q, k, v and o, and gates with it, from prompts with completions; the model stays as it is");
    add(*command, option("--file"), flags->tune.texts,
        "JSON lines with a prompt and a completion; several times for several files")
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    command->add_option("--prompt-field", flags->prompt_field, "Field that holds the prompt")->capture_default_str();
    command->add_option("--completion-field", flags->completion_field, "Field that holds the completion")
        ->capture_default_str();
    command->add_option("--task", flags->task, "For the built-in model: train on one of its tasks instead of files");
    command->add_option("--samples", flags->n_samples, "Samples of the task in an epoch")->capture_default_str();
    command->add_option("-o,--output", flags->output,
                        "Writes OUTPUT.lora.gguf and OUTPUT.gate.gguf (default: MODEL.sft, beside MODEL.gguf)");
    command->add_option("--rank", options.lora.rank, "Of the adapter")->capture_default_str();
    command->add_option("--lora-alpha", options.lora.alpha, "The adapter counts alpha / rank")->capture_default_str();
    command->add_flag("--no-gates", flags->no_gates, "The adapter alone, with the full cache");
    flags->tune.add_gate_options(*command);
    flags->tune.add_run_options(*command);
    command->callback([flags, &exit_code] { exit_code = sft_command(*flags); });
}

}  // namespace pith::app
