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

#include "app/run/auto_budget.h"
#include "app/run/cached_model.h"
#include "app/run/follow.h"
#include "app/run/generate.h"
#include "app/run/loaded_model.h"
#include "app/run/npy_file.h"
#include "app/run/parallel_run.h"
#include "app/run/run.h"
#include "app/run/run_flags.h"
#include "app/run/run_outcome.h"
#include "app/run/run_report.h"
#include "app/run/saved_text.h"
#include "app/shell/commands.h"
#include "cache/cache_file.h"
#include "common/base/errors.h"
#include "common/base/foreign_text.h"
#include "common/base/interrupt.h"
#include "common/base/ledger_report.h"
#include "common/base/progress.h"
#include "common/base/read_text.h"
#include "common/flags/reread_words.h"
#include "common/flags/unseen_question.h"
#include "core/text.h"
#include "pith/cache_file.h"
#include "plan/budget_check.h"
#include "text/prompt.h"

namespace pith::app {
namespace {

// One run of the command, from loaded model to answers.
class SerialRunner {
public:
    SerialRunner(const RunFlags & flags, SamplerOptions sampler, std::vector<std::string> reverse_prompts,
                 SessionOptions options, const LoadedModel & loaded, const SessionFile * cached, Prompt prompt,
                 const PromptRequest & request, NpyFile * logits)
        : flags_(flags),
          sampler_(std::move(sampler)),
          reverse_prompts_(std::move(reverse_prompts)),
          options_(std::move(options)),
          model_(loaded.model),
          tokenizer_(loaded.tokenizer),
          cached_(cached),
          prompt_(std::move(prompt)),
          request_(request),
          logits_(logits),
          auto_budget_(options_.budget),
          cancel_(flags.follow ? catch_end() : catch_interrupt()) {
        if (flags.pin_system && prompt_.n_system > 0) { options_.pinned.push_back({0, prompt_.n_system}); }
    }

    Result<RunOutcome> run() {
        if (flags_.follow) {
            PITH_RETURN_IF_ERROR(follow_input());
            return std::move(outcome_);
        }
        const bool once = flags_.question_later || (!flags_.question_aware && request_.questions.size() > 1);
        const bool shared = once && !request_.context.empty() && !request_.questions.front().empty();
        if (flags_.parallel > 1) {
            return run_parallel({flags_, sampler_, reverse_prompts_, options_, model_, tokenizer_, prompt_, request_}, shared);
        }
        const Status status = cached_ != nullptr ? go_on_from_cache()
                              : shared           ? ask_on_compressed_context()
                                                 : ask_each_on_its_own();
        // Ctrl-C keeps what was said so far.
        if (!status.ok() && status.code() != ErrorCode::kCancelled) { return status; }
        return std::move(outcome_);
    }

private:
    // n_question: tokens at the end that ask.
    Status prefill(Session & session, const std::vector<int32_t> & tokens, size_t n_question = 0) {
        RunHooks hooks;
        hooks.n_question = static_cast<int>(n_question);
        hooks.cancel = &cancel_;
        PITH_RETURN_IF_ERROR(with_progress(hooks, [&] { return session.prefill(tokens, hooks); }));
        tell_of_roomy_budget(session, tokens.size());
        return {};
    }

    // The context, compressed in the sight of all questions, one after the other.
    Status prefill_in_sight(Session & session) {
        RunHooks hooks;
        hooks.cancel = &cancel_;
        std::vector<int32_t> questions;
        for (const auto & question : prompt_.questions) { questions.insert(questions.end(), question.begin(), question.end()); }
        bool seen = false;
        PITH_RETURN_IF_ERROR(with_progress(hooks, [&]() -> Status {
            PITH_ASSIGN_OR_RETURN(seen, session.prefill_for_questions(prompt_.context, questions, hooks));
            return {};
        }));
        const Ledger & ledger = session.ledger();
        if (seen || ledger.evicted_entries > 0) { outcome_.in_sight = seen; }
        tell_of_roomy_budget(session, prompt_.context.size());
        if (!seen && ledger.evicted_entries > 0) { warn_of_unseen_questions(ledger, questions.size(), options_.chunk); }
        return {};
    }

    // The line is gone when `read` is over: messages come behind it.
    static Status with_progress(RunHooks & hooks, const std::function<Status()> & read) {
        ProgressLine line("prefill");
        hooks.progress = [&line](int64_t n_done, int64_t n_total) { line.show_tokens(n_done, n_total); };
        const Status status = read();
        hooks.progress = {};
        return status;
    }

    void tell_of_roomy_budget(const Session & session, size_t n_tokens) {
        auto_budget_.look_at(session);
        if (!std::exchange(told_, true)) { warn_of_roomy_budget(options_.budget, session.ledger(), n_tokens); }
    }

    Status answer(Session & session, Sampler & sampler, size_t index) {
        const bool print = !flags_.json;
        const bool several = request_.questions.size() > 1;
        if (print && several) { std::fprintf(stderr, "%s> %s\n", index > 0 ? "\n" : "", request_.questions[index].c_str()); }
        GenerateOptions options;
        options.n_predict = limit(session);
        options.ignore_eos = flags_.ignore_eos;
        options.stream = print && !flags_.no_stream;
        options.cancel = &cancel_;
        options.reverse_prompts = reverse_prompts_;
        options.reasoning = flags_.reasoning_marks;
        options.hide_reasoning = flags_.chat_template.hides_reasoning();
        options.n_logprobs = flags_.n_logprobs;
        const int64_t first_logits = logits_ != nullptr ? logits_->n_rows() : 0;
        if (logits_ != nullptr) {
            options.on_logits = [this](std::span<const float> row) { return logits_->add(row); };
        }
        sampler.reset();
        for (const int32_t token : prompt_.whole(index)) { sampler.accept(token); }  // penalties look back on the prompt
        PITH_ASSIGN_OR_RETURN(Generated generated, generate(session, tokenizer_, sampler, options));
        if (print && flags_.no_stream) { print_whole(generated, flags_.chat_template.hides_reasoning()); }
        if (print) { std::puts(""); }
        std::fflush(stdout);
        auto_budget_.look_at(session);
        outcome_.answers.push_back(
            {request_.questions[index], std::move(generated), first_logits, logits_ != nullptr ? logits_->n_rows() : 0});
        return {};
    }

    // --n-predict, and never past --ctx-size.
    int64_t limit(const Session & session) const {
        if (flags_.session.ctx_size == 0) { return flags_.n_predict; }
        const int64_t room = std::max<int64_t>(0, flags_.session.ctx_size - session.n_tokens());
        return flags_.n_predict < 0 ? room : std::min(flags_.n_predict, room);
    }

    void add_kept(const Session & session) {
        if (!flags_.kept) { return; }
        Positions positions(static_cast<size_t>(session.n_layers()));
        for (int l = 0; l < session.n_layers(); ++l) {
            for (int h = 0; h < session.n_kv_heads(); ++h) {
                const auto lane = session.lane_positions(l, h);
                positions[static_cast<size_t>(l)].emplace_back(lane.begin(), lane.end());
            }
        }
        outcome_.kept.push_back(std::move(positions));
    }

    Status ask_on_compressed_context() {
        PITH_ASSIGN_OR_RETURN(Sampler sampler, Sampler::make(sampler_, &tokenizer_));
        options_.n_snapshots = prompt_.questions.size() > 1 ? 1 : 0;
        PITH_ASSIGN_OR_RETURN(Session session, model_.session(options_));
        Status status = ask_all(session, sampler);
        if (status.ok()) { status = save(session, begun_text()); }
        outcome_.ledger = session.ledger();
        add_kept(session);
        return status;
    }

    Status ask_all(Session & session, Sampler & sampler) {
        PITH_RETURN_IF_ERROR(flags_.question_later ? prefill(session, prompt_.context) : prefill_in_sight(session));
        return ask_each_behind(session, sampler);
    }

    // Each question behind what the session holds; before the next one it is as it was.
    Status ask_each_behind(Session & session, Sampler & sampler) {
        PITH_ASSIGN_OR_RETURN(const std::optional<Eviction> second_stage, flags_.ask_eviction());
        std::shared_ptr<Session::Snapshot> before;
        if (prompt_.questions.size() > 1) { PITH_ASSIGN_OR_RETURN(before, session.snapshot()); }
        for (size_t i = 0; i < prompt_.questions.size() && !cancel_.load(); ++i) {
            if (i > 0) { PITH_RETURN_IF_ERROR(session.restore(before)); }
            if (second_stage) {
                PITH_RETURN_IF_ERROR(
                    session.evict_for_questions(prompt_.questions[i], second_stage->policy, second_stage->budget, &cancel_));
            }
            PITH_RETURN_IF_ERROR(repair(session, prompt_.questions[i]));
            PITH_RETURN_IF_ERROR(prefill(session, prompt_.questions[i]));
            PITH_RETURN_IF_ERROR(answer(session, sampler, i));
            if (n_returned_) {
                outcome_.answers.back().kv_missed = session.ledger().kv_missed;
                outcome_.answers.back().n_returned = *n_returned_;
            }
        }
        return {};
    }

    // Where what was evicted is kept: what the question looks for of it.
    Status repair(Session & session, const std::vector<int32_t> & question) {
        n_returned_.reset();
        if (session.ledger().cold_entries == 0) { return {}; }
        const int64_t n_before = session.ledger().returned_entries;
        PITH_RETURN_IF_ERROR(session.repair(question, !flags_.no_repair, &cancel_));
        const Ledger & ledger = session.ledger();
        n_returned_ = ledger.returned_entries - n_before;
        if (!flags_.json) { tell_of_missed(ledger.kv_missed, *n_returned_, ledger.n_lanes); }
        return {};
    }

    Result<Session> open_cached() const { return cached_->session(model_, flags_.session.n_threads, Entries::kOwn); }

    // Each question behind what the file holds.
    Status go_on_from_cache() {
        PITH_ASSIGN_OR_RETURN(Sampler sampler, Sampler::make(sampler_, &tokenizer_));
        PITH_ASSIGN_OR_RETURN(Session session, open_cached());
        prompt_.context = session.tokens();
        const Ledger opened = session.ledger();
        Status status = ask_each_behind(session, sampler);
        if (status.ok()) {
            const SavedText text = saved_text(cached_->info().notes);
            status = save(session, {text.uses_template, false, -1, text.n_turns + 1, text.system, tokenizer_.chat_template()});
        }
        outcome_.ledger = since(session.ledger(), opened);
        add_kept(session);
        return status;
    }

    // --follow: the text, as long as it comes, and the question where it ends. What is saved is the text alone.
    Status follow_input() {
        PITH_RETURN_IF_ERROR(check_endless(options_));
        SavedText text;
        std::vector<int32_t> begin;
        if (cached_ != nullptr) {
            PITH_ASSIGN_OR_RETURN(text, followed_text(begin));
        } else {
            text = {request_.use_template, true, -1, 0, request_.system, tokenizer_.chat_template()};
            PITH_ASSIGN_OR_RETURN(ContextTokens before, context_tokens(tokenizer_, text, ""));
            if (flags_.pin_system && before.n_system > 0) { options_.pinned.push_back({0, before.n_system}); }
            begin = std::move(before.tokens);
        }
        PITH_ASSIGN_OR_RETURN(Sampler sampler, Sampler::make(sampler_, &tokenizer_));
        PITH_ASSIGN_OR_RETURN(Session session, cached_ != nullptr ? open_cached() : model_.session(options_));
        const Ledger opened = session.ledger();
        const FollowOptions how{flags_.file.empty() ? "-" : flags_.file, flags_.save_cache, flags_.save_every, options_.chunk};
        PITH_ASSIGN_OR_RETURN(const bool has_ended,
                              pith::app::follow(session, tokenizer_, std::move(begin), text, how, cancel_));
        Status status;
        if (has_ended && !request_.questions.empty()) {
            prompt_.context = session.tokens();
            PITH_ASSIGN_OR_RETURN(prompt_.questions.emplace_back(), continuation(tokenizer_, text, request_.questions.front()));
            status = ask_each_behind(session, sampler);
        }
        outcome_.ledger = since(session.ledger(), opened);
        add_kept(session);
        return status.code() == ErrorCode::kCancelled ? Status() : status;
    }

    // What the file says of the text that goes on. begin: what it said last, and did not read.
    Result<SavedText> followed_text(std::vector<int32_t> & begin) const {
        SavedText text = saved_text(cached_->info().notes);
        if (text.uses_template && !text.open_turn) {
            return Status(ErrorCode::kInvalidArgument, "'" + flags_.cache +
                                                           "' ends in an answer: --follow goes on with a text, as `pith run "
                                                           "--follow --save-cache` and `pith compress` save it");
        }
        if (text.pending >= 0) { begin.push_back(std::exchange(text.pending, -1)); }
        return text;
    }

    // Of a prompt that was answered once.
    SavedText begun_text() const {
        const bool uses_template = request_.use_template && flags_.token_ids.empty();
        return {uses_template, false, -1, 1, request_.system, tokenizer_.chat_template()};
    }

    // --save-cache: the prompt and all that was said.
    Status save(Session & session, const SavedText & text) {
        if (flags_.save_cache.empty() || outcome_.answers.empty()) { return {}; }
        const Generated & said = outcome_.answers.back().generated;
        if (said.unfed >= 0) { PITH_RETURN_IF_ERROR(session.append(said.unfed)); }
        return session.save(flags_.save_cache, to_notes(text));
    }

    Status ask_each_on_its_own() {
        PITH_ASSIGN_OR_RETURN(Sampler sampler, Sampler::make(sampler_, &tokenizer_));
        for (size_t i = 0; i < prompt_.questions.size() && !cancel_.load(); ++i) {
            PITH_ASSIGN_OR_RETURN(Session session, model_.session(options_));
            // A prompt without a context is all question: nothing of it can be judged by the rest.
            const bool asks = !request_.context.empty() && !request_.questions[i].empty();
            Status status = prefill(session, prompt_.whole(i), asks ? prompt_.questions[i].size() : 0);
            if (status.ok()) { status = answer(session, sampler, i); }
            if (status.ok()) { status = save(session, begun_text()); }
            outcome_.ledger = i == 0 ? session.ledger() : combined(outcome_.ledger, session.ledger());
            add_kept(session);
            PITH_RETURN_IF_ERROR(status);
        }
        return {};
    }

    const RunFlags & flags_;
    SamplerOptions sampler_;
    std::vector<std::string> reverse_prompts_;
    SessionOptions options_;
    const Model & model_;
    const Tokenizer & tokenizer_;
    const SessionFile * cached_;  // of --cache; null: none
    Prompt prompt_;
    const PromptRequest & request_;
    NpyFile * logits_;  // null: not wanted
    AutoBudget auto_budget_;
    const std::atomic<bool> & cancel_;
    bool told_ = false;                  // about the budget
    std::optional<int64_t> n_returned_;  // entries, for the question at hand; nullopt: nothing is cold
    RunOutcome outcome_;
};

Result<Prompt> prompt_of_ids(const RunFlags & flags, const Model & model) {
    PITH_ASSIGN_OR_RETURN(std::vector<int32_t> ids, read_token_ids(flags.token_ids));
    PITH_RETURN_IF_ERROR(check_token_ids(ids, model.info().n_vocab));
    Prompt prompt;
    prompt.questions.push_back(std::move(ids));
    return prompt;
}

// Prompts that cannot work at all, and those that merely may not work well. n_before: tokens of a cache file, in front of them.
Status check_length(const RunFlags & flags, const Model & model, const Prompt & prompt, size_t n_before) {
    size_t n_longest = 0;
    for (size_t i = 0; i < prompt.questions.size(); ++i) {
        n_longest = std::max(n_longest, n_before + prompt.context.size() + prompt.questions[i].size());
    }
    const std::string has = "the prompt has " + with_commas(static_cast<int64_t>(n_longest)) + " tokens";
    if (flags.session.ctx_size > 0 && n_longest > static_cast<size_t>(flags.session.ctx_size)) {
        return {ErrorCode::kInvalidArgument,
                has + ", --ctx-size is " + std::to_string(flags.session.ctx_size) + ": raise it, or leave it out"};
    }
    const int n_train = model.info().n_ctx_train;
    const bool shifts = flags.session.budget && !flags.session.cache.no_context_shift;
    if (n_train > 0 && n_longest > static_cast<size_t>(n_train) && !shifts) {
        warn(has + ", the model was trained on " + with_commas(n_train) +
             ": answers may be poor; with a --budget what is kept moves together past that length");
    }
    return {};
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
    if (const Status status = flags.check(); !status.ok()) { return fail_usage(status); }
    auto options = flags.session.options(!flags.model.gate.empty());
    if (!options.ok()) { return fail_usage(options.status()); }
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
    const auto n_before = static_cast<size_t>(cached ? cached->info().n_tokens : 0);
    if (const Status status = check_length(flags, loaded->model, *prompt, n_before); !status.ok()) { return fail(status); }
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

    auto outcome =
        SerialRunner(flags, *sampler, *reverse_prompts, *options, *loaded, file, *prompt, request, logits ? &*logits : nullptr)
            .run();
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
    return interrupted && !flags.follow ? kExitInterrupted : kExitOk;  // --follow ends so
}

void add_run_command(CLI::App & root, int & exit_code) {
    auto flags = std::make_shared<RunFlags>();
    CLI::App * command = root.add_subcommand("run", "Generate text, with a KV cache inside a budget");
    flags->add_to(*command);
    command->callback([flags, &exit_code] { exit_code = run_command(*flags); });
}

}  // namespace pith::app
