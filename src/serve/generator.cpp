// generator.cpp - the engine's thread: jobs come in, a step after the other, what there is to know goes out. Stage: serve.
#include "serve/generator.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iterator>
#include <utility>

#include "core/stopwatch.h"
#include "pith/log.h"
#include "serve/free_memory.h"
#include "serve/generator_run.h"

namespace pith::serve {
namespace {

constexpr int kMostFailedSteps = 3;
constexpr std::chrono::duration<double> kBetweenGivingBack{1.0};  // answers may be many a second

}  // namespace

Generator::Generator(Engine engine, const ModelInfo & model, const Tokenizer & tokenizer, const GeneratorOptions & options)
    : model_(model),
      tokenizer_(tokenizer),
      options_(options),
      end_tokens_(tokenizer.end_of_generation_tokens()),
      engine_(std::move(engine)) {
    const int n_slots = options.engine.max_sequences > 0 ? options.engine.max_sequences : kDefaultSlots;
    slots_.assign(static_cast<size_t>(n_slots), 0);
    tell_state();
    thread_ = std::thread([this] { work(); });
}

Result<std::unique_ptr<Generator>> Generator::start(const Model & model, const Tokenizer & tokenizer,
                                                    const GeneratorOptions & options) {
    PITH_ASSIGN_OR_RETURN(Engine engine, model.engine(options.engine));
    return std::unique_ptr<Generator>(new Generator(std::move(engine), model.info(), tokenizer, options));
}

Generator::~Generator() {
    {
        const std::lock_guard lock(mutex_);
        ending_ = true;
    }
    stop_step_ = true;
    wake_.notify_one();
    thread_.join();
}

// Jobs of one request may be more than the whole line: where nobody waits they come in.
bool Generator::is_full_for(size_t n_jobs) const {
    const int64_t n_waiting = state_.n_waiting + std::ssize(inbox_);
    const int64_t n_then = n_waiting + static_cast<int64_t>(n_jobs);
    return ending_ || n_waiting >= options_.most_waiting || (n_waiting > 0 && n_then > options_.most_waiting);
}

// Until one of those that run ends, as answers went so far.
int64_t Generator::seconds_until_room() const {
    constexpr double kLeast = 1;
    constexpr double kMost = 60;
    const Histogram & whole = state_.metrics.whole;
    if (whole.count() == 0) { return static_cast<int64_t>(kLeast); }
    const double answer_s = whole.sum() / static_cast<double>(whole.count());
    return static_cast<int64_t>(
        std::ceil(std::clamp(answer_s / static_cast<double>(std::max<int64_t>(state_.n_running, 1)), kLeast, kMost)));
}

// Each of the jobs is told to come again.
Status Generator::refuse(size_t n_jobs, Events & events) {
    n_refused_ += static_cast<int64_t>(n_jobs);
    for (size_t i = 0; i < n_jobs; ++i) {
        Failed failed{{ErrorCode::kOutOfMemory, "too many requests wait: try again later"}};
        failed.retry_after_s = seconds_until_room();
        events.push({static_cast<int>(i), std::move(failed)});
    }
    return {};
}

Status Generator::submit(std::vector<Job> jobs, const std::shared_ptr<Events> & events) {
    {
        const std::lock_guard lock(mutex_);
        if (is_full_for(jobs.size())) { return refuse(jobs.size(), *events); }  // before anything is made for them
    }
    std::vector<std::unique_ptr<Run>> runs;
    std::shared_ptr<Reading> reading;
    for (size_t i = 0; i < jobs.size(); ++i) {
        PITH_ASSIGN_OR_RETURN(Sampler sampler, Sampler::make(jobs[i].sampler, &tokenizer_));
        for (const int32_t token : jobs[i].tokens) { sampler.accept(token); }  // penalties look back on the prompt
        runs.push_back(std::make_unique<Run>(std::move(jobs[i]), static_cast<int>(i), events, std::move(sampler), tokenizer_,
                                             end_tokens_, metrics_));
        Run & run = *runs.back();
        run.is_first = i == 0 || runs[i - 1]->job.prompt != run.job.prompt;
        if (run.is_first) {
            const bool for_others = i + 1 < jobs.size() && jobs[i + 1].prompt == run.job.prompt && run.job.max_tokens > 0;
            reading = for_others ? std::make_shared<Reading>() : nullptr;
        }
        run.reading = reading;
    }
    {
        const std::lock_guard lock(mutex_);
        if (is_full_for(runs.size())) { return refuse(runs.size(), *events); }
        n_open_ += std::ssize(runs);
        std::ranges::move(runs, std::back_inserter(inbox_));
    }
    wake_.notify_one();
    return {};
}

void Generator::wake() {
    {
        const std::lock_guard lock(mutex_);
        woken_ = true;
    }
    wake_.notify_one();
}

void Generator::cut() {
    {
        const std::lock_guard lock(mutex_);
        cutting_ = true;
        woken_ = true;
    }
    stop_step_ = true;
    wake_.notify_one();
}

GeneratorState Generator::state() const {
    const std::lock_guard lock(mutex_);
    return state_;
}

void Generator::work() {
    int n_failed = 0;    // steps, one after the other
    bool freed = false;  // answers have ended, and memory that they leave was not given back yet
    Stopwatch since_given_back;
    for (bool more = false;;) {
        std::deque<std::unique_ptr<Run>> came;
        bool cutting = false;
        {
            std::unique_lock lock(mutex_);
            if (!more) {
                const auto is_wanted = [this] { return ending_ || woken_ || !inbox_.empty(); };
                if (freed) {  // to the system before it waits for long
                    wake_.wait_for(lock, kBetweenGivingBack, is_wanted);
                } else {
                    wake_.wait(lock, is_wanted);
                }
            }
            woken_ = false;
            if (ending_) { break; }
            cutting = cutting_;
            came.swap(inbox_);
            state_.n_waiting += std::ssize(came);  // a step may be long: they stand in line meanwhile
        }
        for (auto & run : came) { begin(std::move(run)); }
        if (cutting) { cut_runs(); }
        const Stopwatch step;
        const Result<bool> stepped = cutting ? Result<bool>(false) : engine_.step(&stop_step_);
        n_failed = stepped.ok() ? 0 : n_failed + 1;
        if (n_failed >= kMostFailedSteps) { break_off(stepped.status()); }  // not one request's fault: none would ever end
        metrics_.n_busy += engine_.ledger().n_running;
        look_after_runs(step);
        more = !runs_.empty();
        tell_state();
        freed = freed || !ended_.empty();
        for (auto & [events, event] : ended_) {  // whoever has an answer finds it counted
            events->push(std::move(event));
            --n_open_;
        }
        ended_.clear();
        if (freed && since_given_back.seconds() >= kBetweenGivingBack.count()) {
            give_back_free_memory();
            freed = false;
            since_given_back = {};
        }
    }
    // Whoever still waits is told.
    for (auto & run : runs_) {
        if (!run->done) { run->events->push({run->index, Failed{{ErrorCode::kCancelled, "the server ends"}}}); }
    }
    const std::lock_guard lock(mutex_);
    for (auto & run : inbox_) { run->events->push({run->index, Failed{{ErrorCode::kCancelled, "the server ends"}}}); }
    inbox_.clear();
}

void Generator::break_off(const Status & why) {
    log_line(LogLevel::kError, "all answers end, since the engine fails: " + why.message());
    for (auto & run : runs_) {
        run->broken = why;
        static_cast<void>(engine_.cancel(run->id));
    }
}

void Generator::tell_state() {
    GeneratorState now;
    now.engine = engine_.ledger();
    now.slots.resize(slots_.size());
    for (const auto & run : runs_) {
        if (!run->started) {
            ++now.n_waiting;
            continue;
        }
        ++now.n_running;
        now.n_tokens += std::ssize(run->job.tokens) + run->n_generated;
        if (run->slot < now.slots.size()) {
            now.slots[run->slot] = {true, run->id, std::ssize(run->job.tokens), run->n_generated,
                                    engine_.state(run->id) == RequestState::kReading};
        }
    }
    now.metrics = metrics_;
    const std::lock_guard lock(mutex_);
    now.metrics.n_refused = n_refused_;
    state_ = std::move(now);
}

}  // namespace pith::serve
