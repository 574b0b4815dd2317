// run.cpp - `pith run`: a context, questions about it, and a KV cache that stays inside its budget.
//
// With one question (or --question-aware) context and question are prefilled and compressed together, so that what is kept is
// chosen in the question's sight; once per question. With several the context is prefilled and compressed once, in the sight of
// them all (with --question-later: of none); each then follows at its true positions on the compressed cache, which is cut back
// after the answer. With --parallel the same happens to many at a time (parallel_run.h).
#include <algorithm>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "app/run/cached_model.h"
#include "app/run/follow.h"
#include "app/run/loaded_model.h"
#include "app/run/npy_file.h"
#include "app/run/parallel_run.h"
#include "app/run/run.h"
#include "app/run/run_flags.h"
#include "app/run/run_report.h"
#include "app/run/saved_text.h"
#include "app/run/serial_run.h"
#include "app/run/text_length.h"
#include "app/shell/commands.h"
#include "cache/cache_file.h"
#include "common/base/errors.h"
#include "common/base/foreign_text.h"
#include "common/base/interrupt.h"
#include "common/base/read_text.h"
#include "common/flags/reread_words.h"
#include "common/flags/unseen_question.h"
#include "core/text.h"
#include "pith/cache_file.h"
#include "plan/budget_check.h"
#include "text/prompt.h"

namespace pith::app {
namespace {

Result<Prompt> prompt_of_ids(const RunFlags & flags, const Model & model) {
    PITH_ASSIGN_OR_RETURN(std::vector<int32_t> ids, read_token_ids(flags.token_ids));
    PITH_RETURN_IF_ERROR(check_token_ids(ids, model.info().n_vocab));
    Prompt prompt;
    prompt.questions.push_back(std::move(ids));
    return prompt;
}

// n_before: tokens of a cache file, in front of the prompt.
Status check_length(const RunFlags & flags, const Prompt & prompt, int64_t n_before) {
    int64_t n_longest = 0;
    for (const std::vector<int32_t> & question : prompt.questions) {
        n_longest = std::max(n_longest, n_before + std::ssize(prompt.context) + std::ssize(question));
    }
    return check_context_size("the prompt", n_longest, flags.session.ctx_size);
}

// The questions behind what a cache file holds.
Result<Prompt> prompt_behind(const CacheFileInfo & info, const Tokenizer & tokenizer, const PromptRequest & request) {
    const SavedText text = saved_text(info.notes);
    Prompt prompt;
    for (const std::string & question : request.questions) {
        PITH_ASSIGN_OR_RETURN(prompt.questions.emplace_back(), continuation(tokenizer, text, question));
        if (prompt.questions.back().empty()) {
            return {ErrorCode::kInvalidArgument, "the prompt has no tokens: give some text with -p"};
        }
    }
    return prompt;
}

// The file of --cache, and with it the model.
Result<SessionFile> open_cache(RunFlags & flags) {
    PITH_ASSIGN_OR_RETURN(SessionFile file, SessionFile::open(flags.cache));
    PITH_RETURN_IF_ERROR(find_model_of(file.info(), flags.cache, flags.model));
    return file;
}

Result<Prompt> make_prompt(const RunFlags & flags, const LoadedModel & loaded, const SessionFile * cached,
                           const PromptRequest & request) {
    if (flags.follow) { return Prompt(); }  // nobody knows it yet
    if (cached != nullptr) { return prompt_behind(cached->info(), loaded.tokenizer, request); }
    return !flags.token_ids.empty() ? prompt_of_ids(flags, loaded.model) : build_prompt(loaded.tokenizer, request);
}

}  // namespace

int run_command(RunFlags flags) {
    if (const Status status = flags.take_prompt_words(); !status.ok()) { return fail_usage(status); }
    if (const Status status = flags.check(); !status.ok()) { return fail_usage(status); }
    auto options = flags.session.options(!flags.model.gate.empty());
    if (!options.ok()) { return fail_usage(options.status()); }
    options->draft_ngram = flags.sampler.draft_ngram;
    const auto sampler = flags.sampler.options();
    if (!sampler.ok()) { return fail_usage(sampler.status()); }
    const auto reverse_prompts = flags.reverse_prompt.read(flags.escape);
    if (!reverse_prompts.ok()) { return fail_usage(reverse_prompts.status()); }
    if (flags.parallel > 1) {
        if (const Status status = check_parallel(flags, *options); !status.ok()) { return fail_usage(status); }
    }
    if (const Status status = check_protected(*options); !status.ok()) { return fail(status); }
    if (!flags.save_cache.empty()) {
        if (const Status status = check_can_save(flags.save_cache); !status.ok()) { return fail(status); }
    }
    const auto read = flags.read_texts();
    if (!read.ok()) { return fail(read.status()); }

    std::optional<SessionFile> cached;
    std::string saved_template;
    if (!flags.cache.empty()) {
        auto file = open_cache(flags);
        if (!file.ok()) { return fail_or_usage(file.status()); }
        cached.emplace(std::move(*file));
        saved_template = saved_text(cached->info().notes).chat_template;
        options = cached->info().options;
        options->draft_ngram = flags.sampler.draft_ngram;
        options->n_threads = flags.session.n_threads;
        warn_of_coarse_keys(*options);
    }
    if (flags.follow) {
        if (const Status status = check_endless(*options); !status.ok()) { return fail_usage(status); }
    }
    std::optional<LoadedModel> loaded;
    if (const int code = load_model(flags.model, flags.chat_template, loaded, saved_template); code != kExitOk) { return code; }
    const Tokenizer & tokenizer = loaded->tokenizer;
    PromptRequest request = *read;
    request.use_template = !flags.raw && tokenizer.has_chat_template();
    if (!cached) {  // a saved session has its own
        const Status words = set_reread_words(tokenizer, request.use_template, *options);
        if (!words.ok()) { return fail(words); }
    }
    const SessionFile * file = cached ? &*cached : nullptr;
    const auto prompt = make_prompt(flags, *loaded, file, request);
    if (!prompt.ok()) { return fail(prompt.status()); }
    if (request.use_template) { flags.reasoning_marks = flags.chat_template.marks(tokenizer); }
    if (const std::string problem = tokenizer.chat_template_problem(); !problem.empty()) { warn(problem); }
    const int64_t n_before = cached ? cached->info().n_tokens : 0;
    if (const Status status = check_length(flags, *prompt, n_before); !status.ok()) { return fail(status); }
    if (flags.question_later && !read->context.empty()) {
        warn_of_unseen_question(std::span(&options->policy, 1), loaded->model, options->heads_file,
                                "leave out --question-later, so that it is in sight");
    }
    std::optional<NpyFile> logits;
    if (!flags.logits.empty()) {
        auto made = NpyFile::create(flags.logits, loaded->model.info().n_vocab);
        if (!made.ok()) { return fail(made.status()); }
        logits.emplace(std::move(*made));
    }

    if (flags.pin_system && prompt->n_system > 0) { options->pinned.push_back({0, prompt->n_system}); }
    const RunJob job = {flags, *sampler, *reverse_prompts, *options, loaded->model, loaded->tokenizer, *prompt, request};
    auto outcome = flags.parallel > 1 ? run_parallel(job) : run_serial(job, file, logits ? &*logits : nullptr);
    if (!outcome.ok()) { return fail(outcome.status()); }
    if (logits) {
        if (const Status status = logits->close(); !status.ok()) { return fail(status); }
    }
    const bool interrupted = catch_interrupt().load();
    // Where nothing was evicted there is nothing to warn of.
    if (outcome->ledger.evicted_entries > 0 && !interrupted && !prompt->questions.empty()) {
        warn_of_foreign_prompt(loaded->model, prompt->whole(0), options->n_threads);
    }
    print_outcome(flags, tokenizer, *outcome, interrupted);
    if (const int code = tell_of_failures(*outcome, request.questions.size()); code != kExitOk) { return code; }
    return interrupted && !flags.follow ? kExitInterrupted : kExitOk;  // --follow ends so
}

void add_run_command(CLI::App & root, int & exit_code) {
    auto flags = std::make_shared<RunFlags>();
    CLI::App * command = root.add_subcommand("run", "Generate text, with a KV cache inside a budget");
    flags->add_to(*command);
    command->callback([flags, &exit_code] { exit_code = run_command(*flags); });
}

}  // namespace pith::app
