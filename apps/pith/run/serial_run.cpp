// serial_run.cpp - a session for each question, or one for all, and the answers as they come.
#include "app/run/serial_run.h"

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
#include "app/run/follow.h"
#include "app/run/saved_text.h"
#include "app/run/text_length.h"
#include "cache/cache_file.h"
#include "common/base/interrupt.h"
#include "common/base/ledger_report.h"
#include "common/base/progress.h"
#include "engine/read_question.h"

namespace pith::app {
namespace {

class SerialRunner {
public:
    SerialRunner(const RunJob & job, const SessionFile * cached, NpyFile * logits)
        : job_(job),
          flags_(job.flags),
          request_(job.request),
          options_(job.options),
          prompt_(job.prompt),
          cached_(cached),
          logits_(logits),
          auto_budget_(options_.budget),
          cancel_(flags_.follow ? catch_end() : catch_interrupt()),
          told_(cached != nullptr || flags_.follow) {}

    Result<RunOutcome> run() {
        if (flags_.follow) {
            PITH_RETURN_IF_ERROR(follow_input());
            return std::move(outcome_);
        }
        const Status status = cached_ != nullptr      ? go_on_from_cache()
                              : job_.shares_context() ? ask_on_compressed_context()
                                                      : ask_each_on_its_own();
        // Ctrl-C keeps what was said so far, and so does a failure.
        if (!status.ok() && status.code() != ErrorCode::kCancelled) {
            if (outcome_.answers.empty()) { return status; }
            if (outcome_.answers.back().generated.failure.ok()) { outcome_.failure = status; }
        }
        return std::move(outcome_);
    }

private:
    // n_question: tokens at the end that ask. looks: what they look for among what was evicted comes back.
    Status prefill(Session & session, const std::vector<int32_t> & tokens, int n_question = 0, bool looks = false) {
        RunHooks hooks;
        hooks.n_question = n_question;
        hooks.cancel = &cancel_;
        PITH_RETURN_IF_ERROR(with_progress(
            hooks, [&] { return looks ? read_question(session, tokens, hooks) : session.prefill(tokens, hooks); }));
        tell_of_what_was_read(session, tokens.size());
        return {};
    }

    // The context, compressed in the sight of all questions, one after the other.
    Status prefill_in_sight(Session & session) {
        RunHooks hooks;
        hooks.cancel = &cancel_;
        const std::vector<int32_t> questions = job_.all_questions();
        bool seen = false;
        PITH_RETURN_IF_ERROR(with_progress(hooks, [&]() -> Status {
            PITH_ASSIGN_OR_RETURN(seen, session.prefill_for_questions(prompt_.context, questions, hooks));
            return {};
        }));
        tell_of_what_was_read(session, prompt_.context.size());
        tell_of_sight(job_, seen, questions.size(), session.ledger(), outcome_);
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

    void tell_of_what_was_read(const Session & session, size_t n_tokens) {
        auto_budget_.look_at(session);
        warn_past_training(job_.model, session.n_tokens(), session.ledger(), options_.context_shift);
        if (!std::exchange(told_, true)) { warn_of_roomy_budget(options_.budget, session.ledger(), n_tokens); }
    }

    void print_question(size_t index) const {
        if (flags_.json || request_.questions.size() == 1) { return; }
        std::fprintf(stderr, "%s> %s\n", index > 0 ? "\n" : "", request_.questions[index].c_str());
    }

    Status answer(Session & session, Sampler & sampler, size_t index) {
        const bool print = !flags_.json;
        print_question(index);
        GenerateOptions options = job_.answer_options();
        options.n_predict = limit_of_answer(flags_.n_predict, session.n_tokens(), flags_.session.ctx_size);
        options.stream = print && !flags_.no_stream;
        options.cancel = &cancel_;
        const int64_t first_logits = logits_ != nullptr ? logits_->n_rows() : 0;
        if (logits_ != nullptr) {
            options.on_logits = [this](std::span<const float> row) { return logits_->add(row); };
        }
        sampler.reset();
        for (const int32_t token : prompt_.whole(index)) { sampler.accept(token); }  // penalties look back on the prompt
        Generated generated = generate(session, job_.tokenizer, sampler, options);
        const Status failure = generated.failure;
        if (print && flags_.no_stream) { print_whole(generated, flags_.chat_template.hides_reasoning()); }
        if (print) { std::puts(""); }
        std::fflush(stdout);
        auto_budget_.look_at(session);
        outcome_.answers.push_back(
            {request_.questions[index], std::move(generated), first_logits, logits_ != nullptr ? logits_->n_rows() : 0});
        return failure;
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
        PITH_ASSIGN_OR_RETURN(Sampler sampler, Sampler::make(job_.sampler, &job_.tokenizer));
        options_.n_snapshots = prompt_.questions.size() > 1 ? 1 : 0;
        PITH_ASSIGN_OR_RETURN(Session session, job_.model.session(options_));
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

    // Each question behind what the session holds; before the next one it is as it was. One of several that fails has no
    // answer, and the next one is asked.
    Status ask_each_behind(Session & session, Sampler & sampler) {
        PITH_ASSIGN_OR_RETURN(const std::optional<Eviction> second_stage, flags_.ask_eviction());
        const size_t n_questions = prompt_.questions.size();
        std::shared_ptr<Session::Snapshot> before;
        if (n_questions > 1) { PITH_ASSIGN_OR_RETURN(before, session.snapshot()); }
        for (size_t i = 0; i < n_questions && !cancel_.load(); ++i) {
            if (i > 0) { PITH_RETURN_IF_ERROR(session.restore(before)); }
            const Status status = ask_behind(session, sampler, i, second_stage);
            if (status.ok()) { continue; }
            if (n_questions == 1 || status.code() == ErrorCode::kCancelled) { return status; }
            note_failure(i, status);
        }
        return {};
    }

    Status ask_behind(Session & session, Sampler & sampler, size_t i, const std::optional<Eviction> & second_stage) {
        if (second_stage) {
            PITH_RETURN_IF_ERROR(
                session.evict_for_questions(prompt_.questions[i], second_stage->policy, second_stage->budget, &cancel_));
        }
        PITH_RETURN_IF_ERROR(read_and_tell(session, prompt_.questions[i]));
        PITH_RETURN_IF_ERROR(answer(session, sampler, i));
        if (n_returned_) {
            outcome_.answers.back().kv_missed = session.ledger().kv_missed;
            outcome_.answers.back().n_returned = *n_returned_;
        }
        return {};
    }

    // Of one of several: what it has said, if anything, is its answer.
    void note_failure(size_t i, const Status & status) {
        if (outcome_.answers.size() > i) { return; }
        print_question(i);
        if (!flags_.json) { std::puts(""); }
        RunAnswer & none = outcome_.answers.emplace_back();
        none.question = request_.questions[i];
        none.generated.stop = kStopError;
        none.generated.failure = status;
    }

    // Where what was evicted is kept, what the question looks for of it comes back.
    Status read_and_tell(Session & session, const std::vector<int32_t> & question) {
        n_returned_.reset();
        const bool looks = session.ledger().cold_entries > 0;
        const int64_t n_before = session.ledger().returned_entries;
        if (looks && flags_.no_repair) { PITH_RETURN_IF_ERROR(session.repair(question, /*brings_back=*/false, &cancel_)); }
        PITH_RETURN_IF_ERROR(prefill(session, question, /*n_question=*/0, looks && !flags_.no_repair));
        if (!looks) { return {}; }
        const Ledger & ledger = session.ledger();
        n_returned_ = ledger.returned_entries - n_before;
        if (!flags_.json) { tell_of_missed(ledger.kv_missed, *n_returned_, ledger.n_lanes); }
        return {};
    }

    Result<Session> open_cached() const {
        PITH_ASSIGN_OR_RETURN(Session session, cached_->session(job_.model, flags_.session.n_threads, Entries::kOwn));
        PITH_RETURN_IF_ERROR(session.set_draft_ngram(flags_.sampler.draft_ngram));
        PITH_RETURN_IF_ERROR(session.set_repair_every(flags_.session.cold.repair_every));
        return session;
    }

    // Each question behind what the file holds.
    Status go_on_from_cache() {
        PITH_ASSIGN_OR_RETURN(Sampler sampler, Sampler::make(job_.sampler, &job_.tokenizer));
        PITH_ASSIGN_OR_RETURN(Session session, open_cached());
        prompt_.context = session.tokens();
        const Ledger opened = session.ledger();
        if (opened.evicted_entries > 0) { auto_budget_ = AutoBudget({}); }  // who saved it was told
        Status status = ask_each_behind(session, sampler);
        if (status.ok()) {
            const SavedText text = saved_text(cached_->info().notes);
            status =
                save(session, {text.uses_template, false, -1, text.n_turns + 1, text.system, job_.tokenizer.chat_template()});
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
            text = {request_.use_template, true, -1, 0, request_.system, job_.tokenizer.chat_template()};
            PITH_ASSIGN_OR_RETURN(ContextTokens before, context_tokens(job_.tokenizer, text, ""));
            if (flags_.pin_system && before.n_system > 0) { options_.pinned.push_back({0, before.n_system}); }
            begin = std::move(before.tokens);
        }
        PITH_ASSIGN_OR_RETURN(Sampler sampler, Sampler::make(job_.sampler, &job_.tokenizer));
        PITH_ASSIGN_OR_RETURN(Session session, cached_ != nullptr ? open_cached() : job_.model.session(options_));
        const Ledger opened = session.ledger();
        const FollowOptions how{flags_.file.empty() ? "-" : flags_.file, flags_.save_cache, flags_.save_every, options_.chunk};
        PITH_ASSIGN_OR_RETURN(const bool has_ended,
                              pith::app::follow(session, job_.tokenizer, std::move(begin), text, how, cancel_));
        Status status;
        if (has_ended && !request_.questions.empty()) {
            prompt_.context = session.tokens();
            PITH_ASSIGN_OR_RETURN(prompt_.questions.emplace_back(),
                                  continuation(job_.tokenizer, text, request_.questions.front()));
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
        return {uses_template, false, -1, 1, request_.system, job_.tokenizer.chat_template()};
    }

    // --save-cache: the prompt and all that was said.
    Status save(Session & session, const SavedText & text) {
        if (flags_.save_cache.empty() || outcome_.answers.empty()) { return {}; }
        const Generated & said = outcome_.answers.back().generated;
        if (said.unfed >= 0) { PITH_RETURN_IF_ERROR(session.append(said.unfed)); }
        return session.save(flags_.save_cache, to_notes(text));
    }

    // One of several that fails has no answer, and the next one is asked.
    Status ask_each_on_its_own() {
        PITH_ASSIGN_OR_RETURN(Sampler sampler, Sampler::make(job_.sampler, &job_.tokenizer));
        const size_t n_prompts = prompt_.questions.size();
        for (size_t i = 0; i < n_prompts && !cancel_.load(); ++i) {
            const Status status = ask_on_its_own(i, sampler);
            if (status.ok()) { continue; }
            if (n_prompts == 1 || status.code() == ErrorCode::kCancelled) { return status; }
            note_failure(i, status);
            if (flags_.kept) { outcome_.kept.resize(i + 1); }
        }
        return {};
    }

    Status ask_on_its_own(size_t i, Sampler & sampler) {
        PITH_ASSIGN_OR_RETURN(Session session, job_.model.session(options_));
        Status status = prefill(session, prompt_.whole(i), job_.n_question(i));
        if (status.ok()) { status = answer(session, sampler, i); }
        if (status.ok()) { status = save(session, begun_text()); }
        outcome_.ledger = n_ledgers_++ == 0 ? session.ledger() : combined(outcome_.ledger, session.ledger());
        add_kept(session);
        return status;
    }

    const RunJob & job_;
    const RunFlags & flags_;
    const PromptRequest & request_;
    SessionOptions options_;
    Prompt prompt_;               // what a cache holds, or a text that was followed, becomes its context
    const SessionFile * cached_;  // of --cache; null: none
    NpyFile * logits_;            // null: not wanted
    AutoBudget auto_budget_;
    const std::atomic<bool> & cancel_;
    bool told_;                          // about the budget; of a text that came before nothing is to be told
    int n_ledgers_ = 0;                  // that are combined in the outcome's
    std::optional<int64_t> n_returned_;  // entries, for the question at hand; nullopt: nothing is cold
    RunOutcome outcome_;
};

}  // namespace

Result<RunOutcome> run_serial(const RunJob & job, const SessionFile * cached, NpyFile * logits) {
    return SerialRunner(job, cached, logits).run();
}

}  // namespace pith::app
