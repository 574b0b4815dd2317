// calibrate_importance.cpp - `pith calibrate importance`: learns what reading a text twice would say of its entries.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "app/models/calibrate.h"
#include "common/base/errors.h"
#include "common/base/interrupt.h"
#include "common/base/ledger_report.h"
#include "common/base/progress.h"
#include "common/base/read_text.h"
#include "common/flags/engine_flags.h"
#include "common/options/options.h"
#include "core/check.h"
#include "engine/parts/model_parts.h"
#include "engine/probe/calibrate_importance.h"
#include "engine/probe/import_importance.h"
#include "engine/probe/importance_texts.h"
#include "file/can_write.h"
#include "gate/gate_file.h"
#include "model/head_importance_file.h"
#include "text/reread_prompt.h"

namespace pith::app {
namespace {

struct ImportanceFlags {
    ModelFlags model;
    std::vector<std::string> files;
    std::string import;
    std::string output;
    ImportanceTextOptions texts;
    ImportanceOptions options;
    bool json = false;
};

Result<std::vector<std::vector<int32_t>>> texts_of(const ImportanceFlags & flags, const Tokenizer & tokenizer) {
    if (flags.files.empty()) { return generated_texts(tokenizer, flags.texts); }
    std::vector<std::string> texts;
    for (const std::string & path : flags.files) {
        PITH_ASSIGN_OR_RETURN(std::string text, read_text(path));
        texts.push_back(std::move(text));
    }
    return pieces_of_texts(tokenizer, texts, flags.texts);
}

void report(const ImportancePredictor & done, const ImportanceFlags & flags) {
    if (flags.json) {
        Json object;
        object["model"] = flags.model.path;
        object["file"] = flags.output;
        object["n_tokens"] = done.n_tokens;
        object["ridge"] = flags.options.ridge;
        object["held_out"] =
            Json{{"n_tokens", done.held_out.n_tokens}, {"explained", done.held_out.explained}, {"found", done.held_out.found}};
        print_json(object);
        return;
    }
    std::printf(
        "learnt from %lld tokens; on %lld others it explains %.0f %% of how the scores of a second reading differ,\n"
        "and finds %.0f %% of the fifth that a second reading ranks first (a guess: 20 %%); written to %s\n",
        static_cast<long long>(done.n_tokens), static_cast<long long>(done.held_out.n_tokens), 100 * done.held_out.explained,
        100 * done.held_out.found, flags.output.c_str());
}

int import(const ImportanceFlags & flags, const Model & model) {
    const auto read = import_importance(flags.import, model);
    if (!read.ok()) { return fail(read.status()); }
    if (const Status status = save_importance(flags.output, *read, model); !status.ok()) { return fail(status); }
    if (flags.json) {
        print_json(Json{{"model", flags.model.path}, {"file", flags.output}, {"imported", flags.import}});
    } else {
        std::printf("%s: from %s\n", flags.output.c_str(), flags.import.c_str());
    }
    return kExitOk;
}

int importance_command(ImportanceFlags flags) {
    if (!flags.import.empty() && !flags.files.empty()) { return fail_usage("--import reads no text: leave out -f"); }
    if (const Status status = check_at_least("--samples", flags.texts.n_texts, 2); !status.ok()) { return fail_usage(status); }
    if (const Status status = check_at_least("--tokens", flags.texts.n_tokens, kShortestImportanceText); !status.ok()) {
        return fail_usage(status);
    }
    if (const Status status = check_at_least("--threads", flags.options.n_threads, 0); !status.ok()) {
        return fail_usage(status);
    }
    if (!(flags.options.ridge > 0)) { return fail_usage("--ridge must be above 0"); }
    if (const Status found = flags.model.find(); !found.ok()) { return fail_or_usage(found); }
    const auto model = flags.model.load();
    if (!model.ok()) { return fail(model.status()); }
    if (flags.output.empty()) { flags.output = path_beside_model(file_of(*model).path(), kImportanceFileEnd); }
    if (const Status status = check_can_write(flags.output); !status.ok()) { return fail(status); }
    if (!flags.import.empty()) { return import(flags, *model); }
    const auto tokenizer = Tokenizer::load(flags.model.path);
    if (!tokenizer.ok()) { return fail(tokenizer.status()); }
    const auto texts = texts_of(flags, *tokenizer);
    if (!texts.ok()) { return fail(texts.status()); }
    auto words = reread_prompt(*tokenizer, tokenizer->has_chat_template());
    if (!words.ok()) { return fail(words.status()); }
    flags.options.reread = std::move(*words);
    flags.options.cancel = &catch_interrupt();
    Result<ImportancePredictor> done = Status();
    {
        ProgressLine progress("learning");
        flags.options.progress = [&progress](int64_t n_done, int64_t n_total) { progress.show_tokens(n_done, n_total); };
        const int n_held_out = std::max(1, static_cast<int>(texts->size()) / 8);
        done = fit_importance(*model, *texts, n_held_out, flags.options);
    }
    if (!done.ok()) { return fail(done.status()); }
    if (const Status status = save_importance(flags.output, *done, *model); !status.ok()) { return fail(status); }
    report(*done, flags);
    return kExitOk;
}

}  // namespace

void add_calibrate_importance_command(CLI::App & calibrate, int & exit_code) {
    auto flags = std::make_shared<ImportanceFlags>();
    CLI::App * command = calibrate.add_subcommand(
        "importance", "What reading a text twice would say of each entry, foretold in one reading: for gate, and `auto`");
    flags->model.add_to(*command);
    add(*command, option("--file"), flags->files,
        "Text to learn from, like what will be read; several times for several files (default: generated text)")
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    command->add_option("-o,--output", flags->output, "File to write (default: MODEL.importance.gguf beside MODEL.gguf)");
    command->add_option("--samples", flags->texts.n_texts, "Pieces of text, at most; an eighth of them judge what was learnt")
        ->capture_default_str();
    add(*command, option("--tokens"), flags->texts.n_tokens, "Length of a piece")->capture_default_str();
    add(*command, option("--seed"), flags->texts.seed, "Seed of generated text")->capture_default_str();
    command->add_option("--import", flags->import,
                        "A predictor that others have trained: KVzap's safetensors; no text is read");
    command->add_option("--ridge", flags->options.ridge, "Penalty of the regression")->capture_default_str();
    add(*command, option("--threads"), flags->options.n_threads);
    add(*command, option("--json"), flags->json);
    command->callback([flags, &exit_code] { exit_code = importance_command(*flags); });
}

}  // namespace pith::app
