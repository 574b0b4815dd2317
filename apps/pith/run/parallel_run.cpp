// parallel_run.cpp - prompts become an engine's requests, and these answers.
#include "app/run/parallel_run.h"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <utility>

#include "app/run/text_length.h"
#include "common/base/interrupt.h"
#include "common/base/ledger_report.h"
#include "common/base/progress.h"
#include "device/available_memory.h"
#include "device/resident.h"
#include "engine/engine_options.h"

namespace pith::app {
namespace {

constexpr int64_t kMostTokens = int64_t{1} << 30;  // of an answer

// What memory allows all of them together, where the system says what that is.
Result<Engine> make_engine(const RunJob & job) {
    EngineOptions options = engine_options(job.options);
    options.max_sequences = job.flags.parallel;
    options.grid = job.options.grid;  // the answers are those of one after the other
    if (available_memory() > 0) { options.ceiling = Budget(BudgetKind::kAuto, 0); }
    return job.model.engine(options);
}

// One question on its way through the engine.
struct Asked {
    Asked(const RunJob & job, Sampler own) : sampler(std::move(own)), options(job.answer_options()) {
        writer.emplace(job.tokenizer, sampler, options);
    }
    Asked(const Asked &) = delete;
    Asked & operator=(const Asked &) = delete;

    Sampler sampler;
    GenerateOptions options;
    std::optional<AnswerWriter> writer;
    std::string stop = "limit";
    Status failure;       // why it has no answer, or not a whole one
    int64_t id = 0;       // the engine's; 0: it did not take the question
    size_t n_prompt = 0;  // tokens, those of a shared context too
    int64_t n_said = 0;
    double kv_missed = -1;  // as RunAnswer has it
    int64_t n_returned = 0;
};

class ParallelRunner {
public:
    ParallelRunner(const RunJob & job, Engine engine) : job_(job), engine_(std::move(engine)), cancel_(catch_interrupt()) {}

    Result<RunOutcome> run(bool shared) {
        Status status = shared ? read_context() : Status();
        if (status.ok() && !cancel_.load()) { status = ask(shared); }
        if (status.ok()) { status = serve(); }
        line_.reset();
        if (asked_.empty()) { PITH_RETURN_IF_ERROR(status); }
        if (!status.ok() || cancel_.load()) { keep_what_was_said(status); }
        if (asked_.size() == 1 && asked_[0]->n_said == 0) { PITH_RETURN_IF_ERROR(asked_[0]->failure); }
        outcome_.failure = status;
        tell_costs();
        return std::move(outcome_);
    }

private:
    SessionOptions options() const {
        SessionOptions options = job_.options;
        if (options.budget.kind == BudgetKind::kAuto) { options.budget = {}; }  // the ceiling's business
        return options;
    }

    // The context, for all questions to go on from; compressed in their sight, unless they come later.
    Status read_context() {
        Request request;
        request.tokens = job_.prompt.context;
        request.options = options();
        request.keep = true;
        request.max_tokens = 0;
        request.repair = false;  // each question looks for itself
        if (!job_.flags.question_later) { request.questions = job_.all_questions(); }
        const size_t n_questions = request.questions.size();
        PITH_ASSIGN_OR_RETURN(context_, engine_.submit(std::move(request)));
        for (bool more = true; more && !cancel_.load();) { PITH_ASSIGN_OR_RETURN(more, step()); }
        line_.reset();
        if (cancel_.load()) { return {}; }
        PITH_RETURN_IF_ERROR(engine_.status(context_));
        PITH_ASSIGN_OR_RETURN(const Ledger ledger, engine_.ledger(context_));
        const bool seen = engine_.questions_seen(context_);
        warn_of_roomy_budget(job_.options.budget, ledger, job_.prompt.context.size());
        tell_of_sight(job_, seen, n_questions, ledger, outcome_);
        return {};
    }

    Status ask(bool shared) {
        const std::vector<int32_t> stop = job_.tokenizer.end_of_generation_tokens();
        for (size_t i = 0; i < job_.prompt.questions.size(); ++i) {
            PITH_ASSIGN_OR_RETURN(Sampler sampler, Sampler::make(job_.sampler, &job_.tokenizer));
            const std::vector<int32_t> whole = job_.prompt.whole(i);
            for (const int32_t token : whole) { sampler.accept(token); }  // penalties look back on the prompt
            Asked & asked = *asked_.emplace_back(std::make_unique<Asked>(job_, std::move(sampler)));
            asked.n_prompt = whole.size();
            Request request;
            request.tokens = shared ? job_.prompt.questions[i] : whole;
            request.repair = !job_.flags.no_repair;
            if (shared) {
                request.after = context_;
            } else {
                request.options = options();
                request.n_question = job_.n_question(i);
            }
            request.max_tokens = static_cast<int>(
                std::min(limit_of_answer(job_.flags.n_predict, std::ssize(whole), job_.flags.session.ctx_size), kMostTokens));
            request.keep = request.max_tokens == 0;  // it is read all the same
            request.stop = stop;
            request.choose = [&asked](std::span<const float> logits) -> Result<int32_t> {
                PITH_ASSIGN_OR_RETURN(const int32_t token, asked.writer->choose(logits));
                if (asked.writer->ends(token)) { asked.stop = "end"; }
                return token;
            };
            request.on_token = [&asked](int32_t token) {
                ++asked.n_said;
                if (asked.writer->say(token)) { return true; }
                asked.stop = "reverse-prompt";
                return false;
            };
            const auto id = engine_.submit(std::move(request));
            if (id.ok()) {
                asked.id = *id;
            } else {
                asked.failure = id.status();
            }
        }
        return {};
    }

    Status serve() {
        for (bool more = n_handed_out_ < asked_.size(); more && !cancel_.load();) {
            PITH_ASSIGN_OR_RETURN(more, step());
            PITH_RETURN_IF_ERROR(hand_out());
        }
        return {};
    }

    // A pass, and how far the prompts are.
    Result<bool> step() {
        if (!line_ && !prompts_read_) { line_.emplace("prefill"); }
        PITH_ASSIGN_OR_RETURN(const bool more, engine_.step(&cancel_));
        const int64_t n_read = engine_.ledger().n_prompt;
        prompts_read_ = n_read >= n_prompt();
        if (line_) { line_->show_tokens(n_read, n_prompt()); }
        if (prompts_read_) { line_.reset(); }
        return more;
    }

    int64_t n_prompt() const {
        int64_t n = 0;
        for (size_t i = 0; i < job_.prompt.questions.size(); ++i) {
            n += std::ssize(job_.prompt.questions[i]) + (context_ == 0 ? std::ssize(job_.prompt.context) : 0);
        }
        return n + (context_ == 0 ? 0 : std::ssize(job_.prompt.context));
    }

    // Answers that have ended, as long as no earlier one is missing.
    Status hand_out() {
        for (; n_handed_out_ < asked_.size(); ++n_handed_out_) {
            Asked & asked = *asked_[n_handed_out_];
            if (asked.id != 0) {
                const RequestState state = engine_.state(asked.id);
                if (state == RequestState::kFailed) {
                    asked.failure = engine_.status(asked.id);
                } else if (state != RequestState::kDone) {
                    break;
                }
                PITH_RETURN_IF_ERROR(add_ledger_of(asked));
                PITH_RETURN_IF_ERROR(engine_.forget(asked.id));
            }
            if (n_handed_out_ == 0 && context_ == 0 && asked.failure.ok()) {
                warn_of_roomy_budget(job_.options.budget, outcome_.ledger, job_.prompt.whole(0).size());
            }
            say(n_handed_out_);
        }
        return {};
    }

    void say(size_t index) {
        Asked & asked = *asked_[index];
        RunAnswer answer{job_.request.questions[index], asked.writer->finish(asked.failure.ok() ? asked.stop : kStopError)};
        answer.generated.failure = asked.failure;
        answer.kv_missed = asked.kv_missed;
        answer.n_returned = asked.n_returned;
        if (!job_.flags.json) {
            line_.reset();
            if (asked_.size() > 1) {
                std::fprintf(stderr, "%s> %s\n", outcome_.answers.empty() ? "" : "\n", answer.question.c_str());
            }
            if (answer.kv_missed >= 0) { tell_of_missed(answer.kv_missed, answer.n_returned, n_lanes_); }
            print_whole(answer.generated, job_.flags.chat_template.hides_reasoning());
            std::puts("");
            std::fflush(stdout);
        }
        outcome_.answers.push_back(std::move(answer));
    }

    // Ctrl-C, or what ended the run: beginnings of answers are answers, too.
    void keep_what_was_said(const Status & why) {
        for (size_t i = n_handed_out_; i < asked_.size(); ++i) {
            Asked & asked = *asked_[i];
            if (asked.id == 0 || !add_ledger_of(asked).ok()) { continue; }
            const RequestState state = engine_.state(asked.id);
            if (state == RequestState::kFailed) {
                asked.failure = engine_.status(asked.id);
            } else {
                if (state != RequestState::kDone) { asked.stop = "interrupt"; }
                if (!why.ok()) { asked.failure = why; }
            }
            if (asked.n_said > 0 || state == RequestState::kFailed) { say(i); }
        }
    }

    Status add_ledger_of(Asked & asked) {
        PITH_ASSIGN_OR_RETURN(Ledger ledger, engine_.ledger(asked.id));
        asked.kv_missed = ledger.kv_missed;
        asked.n_returned = ledger.returned_entries;
        n_lanes_ = ledger.n_lanes;
        warn_past_training(job_.model, static_cast<int64_t>(asked.n_prompt), ledger, job_.options.context_shift);
        outcome_.ledger = n_ledgers_++ == 0 ? std::move(ledger) : combined(outcome_.ledger, ledger);
        return {};
    }

    // Sizes and counts of the largest and of all; tokens and times are the engine's, since passes are for many.
    void tell_costs() {
        if (context_ != 0) {
            if (auto context = engine_.ledger(context_); context.ok()) {
                outcome_.ledger = n_ledgers_ == 0 ? *context : combined(outcome_.ledger, *context);
            }
        }
        const EngineLedger all = engine_.ledger();
        Ledger & ledger = outcome_.ledger;
        ledger.n_prompt = all.n_prompt;
        ledger.n_generated = all.n_generated;
        ledger.prefill_s = all.prefill_s;
        ledger.decode_s = all.decode_s;
        ledger.evidence_s = all.evidence_s;
        ledger.kv_peak_bytes = all.kv_peak_bytes;
        ledger.activation_peak_bytes = std::max(ledger.activation_peak_bytes, all.activation_peak_bytes);
        const ResidentBytes resident = resident_bytes();
        ledger.rss_peak_bytes = resident.peak;
        ledger.rss_anonymous_bytes = resident.anonymous;
        outcome_.n_steps = all.n_steps;
        outcome_.longest_unit_s = all.longest_unit_s;
    }

    const RunJob & job_;
    std::vector<std::unique_ptr<Asked>> asked_;  // the engine's hooks point at them: they go after it
    Engine engine_;
    const std::atomic<bool> & cancel_;
    std::optional<ProgressLine> line_;
    bool prompts_read_ = false;
    int64_t context_ = 0;  // its request; 0: none
    size_t n_handed_out_ = 0;
    int n_ledgers_ = 0;
    int64_t n_lanes_ = 0;
    RunOutcome outcome_;
};

}  // namespace

Status check_parallel(const RunFlags & flags, const SessionOptions & options) {
    const auto wrong = [](const std::string & what) { return Status(ErrorCode::kInvalidArgument, what); };
    if (flags.kept) { return wrong("--kept shows one session after the other: leave out --parallel"); }
    if (!flags.logits.empty()) { return wrong("--logits writes one answer after the other: leave out --parallel"); }
    if (flags.n_predict < 0 && flags.session.ctx_size == 0) {
        return wrong(
            "--n-predict -1 has no end that memory could be set aside for: with --parallel give a number, or --ctx-size");
    }
    if (options.budget.kind == BudgetKind::kAuto && !options.policy.is_auto()) {
        return wrong("--budget auto is what memory allows one answer: with --parallel give policy '" + options.policy.name() +
                     "' a budget in numbers");
    }
    return {};
}

Result<RunOutcome> run_parallel(const RunJob & job) {
    PITH_ASSIGN_OR_RETURN(Engine engine, make_engine(job));
    return ParallelRunner(job, std::move(engine)).run(job.shares_context());
}

}  // namespace pith::app
