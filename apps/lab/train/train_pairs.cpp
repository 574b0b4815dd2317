// train_pairs.cpp - `pith train pairs`: a benchmark's samples as the prompts with completions that `pith train sft` reads.
#include "app/train/train_pairs.h"

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/base/errors.h"
#include "common/base/read_text.h"
#include "common/models/model_source.h"
#include "common/options/options.h"
#include "core/check.h"
#include "eval/sample_pairs.h"
#include "file/write_file.h"
#include "pith/text.h"
#include "text/chat_frame.h"

namespace pith::app {
namespace {

struct PairsFlags {
    std::vector<std::string> files;
    std::string task;
    std::string model;  // whose chat template stands around the prompts
    std::string output;
    int n_samples = 0;
};

Result<PairFrame> frame_of(const std::string & model) {
    PairFrame frame;
    if (model.empty()) { return frame; }
    PITH_ASSIGN_OR_RETURN(const std::string file, find_model_file(model));
    PITH_ASSIGN_OR_RETURN(const Tokenizer tokenizer, Tokenizer::load(file));
    if (!tokenizer.has_chat_template()) { return frame; }
    PITH_ASSIGN_OR_RETURN(const ChatFrame chat, chat_frame(tokenizer, false));
    PITH_ASSIGN_OR_RETURN(frame.between, between_turns(tokenizer));
    frame.before_user = chat.before_user;
    frame.after_user = chat.after_user;
    return frame;
}

std::string line_of(const FileSample & one, const SamplePair & pair) {
    nlohmann::ordered_json line;
    if (one.task != nullptr) { line["task"] = full_name(one.task->rules()); }
    line["id"] = one.sample.id;
    line["prompt"] = pair.prompt;
    line["completion"] = pair.completion;
    return line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

struct Converted {
    std::string lines;
    int n_samples = 0;
    int n_pairs = 0;
    int n_without = 0;  // samples that have no answer
};

Status convert(const std::string & path, const PairsFlags & flags, const PairFrame & frame, Converted & out) {
    SampleFileRequest request;
    request.name = path;
    PITH_ASSIGN_OR_RETURN(request.text, read_text(path));
    request.task = flags.task;
    request.n_samples = flags.n_samples;
    PITH_ASSIGN_OR_RETURN(const std::vector<FileSample> samples, read_samples(request));
    for (const FileSample & one : samples) {
        // A task whose benchmark has it without a template is trained as it is asked.
        const bool in_frame = one.task == nullptr || one.task->rules().chat;
        const std::vector<SamplePair> pairs = sample_pairs(one, in_frame ? frame : PairFrame{});
        for (const SamplePair & pair : pairs) { out.lines += line_of(one, pair); }
        ++out.n_samples;
        out.n_pairs += static_cast<int>(pairs.size());
        out.n_without += pairs.empty() ? 1 : 0;
    }
    return {};
}

int pairs_command(const PairsFlags & flags) {
    if (const Status status = check_at_least("--samples", flags.n_samples, 0); !status.ok()) { return fail_usage(status); }
    const auto frame = frame_of(flags.model);
    if (!frame.ok()) { return fail(frame.status()); }
    Converted all;
    for (const std::string & path : flags.files) {
        if (const Status status = convert(path, flags, *frame, all); !status.ok()) { return fail(status); }
    }
    if (all.n_pairs == 0) {
        return fail({ErrorCode::kInvalidArgument, "none of the " + std::to_string(all.n_samples) +
                                                      " samples has a question and an answer: there is nothing to train on"});
    }
    if (all.n_without > 0) {
        warn(std::to_string(all.n_without) + " of " + std::to_string(all.n_samples) + " samples have no answer: left out");
    }
    if (flags.output.empty()) {
        std::fwrite(all.lines.data(), 1, all.lines.size(), stdout);
        return kExitOk;
    }
    if (const Status status = write_file(flags.output, all.lines); !status.ok()) { return fail(status); }
    std::fprintf(stderr, "%d pairs of %d samples written to %s\n", all.n_pairs, all.n_samples, flags.output.c_str());
    return kExitOk;
}

}  // namespace

void add_train_pairs_command(CLI::App & train, int & exit_code) {
    auto flags = std::make_shared<PairsFlags>();
    CLI::App * command = train.add_subcommand(
        "pairs", "Prompts with completions for `pith train sft`, from a benchmark's files or `pith eval --write-samples`");
    command->add_option("FILES", flags->files, "JSON lines: a benchmark's own file, or samples that `pith eval` wrote")
        ->required();
    command->add_option("--task", flags->task, "FAMILY/NAME: the task that the files are of, where their names do not say so");
    add(*command, option("--model"), flags->model, "Put the prompts into this model's chat template, as `pith eval` does");
    command->add_option("--samples", flags->n_samples, "The first so many samples of each file (default: all)");
    command->add_option("-o,--output", flags->output, "File to write (default: standard output)");
    command->callback([flags, &exit_code] { exit_code = pairs_command(*flags); });
}

}  // namespace pith::app
