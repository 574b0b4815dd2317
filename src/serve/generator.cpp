// generator.cpp - jobs become an engine's requests, and what it says events. Stage: serve.
#include "serve/generator.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "core/stopwatch.h"
#include "core/text.h"
#include "serve/answer_text.h"

namespace pith::serve {
namespace {

constexpr double kShareOfCeiling = 0.5;  // what a request may take that would need more than all
constexpr int kMostFailedSteps = 3;
constexpr int kDefaultSlots = 4;  // shown while fewer run
constexpr double kMapS = 0.5;     // between two maps of a cache

}  // namespace

void Events::push(Event event) {
    {
        const std::lock_guard lock(mutex_);
        events_.push_back(std::move(event));
    }
    came_.notify_one();
}

std::optional<Event> Events::pop(int wait_ms) {
    std::unique_lock lock(mutex_);
    if (!came_.wait_for(lock, std::chrono::milliseconds(wait_ms), [this] { return !events_.empty(); })) { return {}; }
    Event event = std::move(events_.front());
    events_.pop_front();
    return event;
}

// One job on its way through the engine.
struct Generator::Run {
    Run(Job of, int at, std::shared_ptr<Events> to, Sampler with, const Tokenizer & of_model, const std::vector<int32_t> & ends,
        Metrics & into)
        : job(std::move(of)),
          index(at),
          events(std::move(to)),
          sampler(std::move(with)),
          text(job.stop),
          parser(job.form),
          tokenizer(of_model),
          end_tokens(ends),
          metrics(into) {}

    Result<int32_t> choose(std::span<const float> logits) {
        std::span<const float> from = logits;
        if (job.ignore_eos) {
            changed.assign(logits.begin(), logits.end());
            for (const int32_t token : end_tokens) {
                changed[static_cast<size_t>(token)] = -std::numeric_limits<float>::infinity();
            }
            from = changed;
        }
        PITH_ASSIGN_OR_RETURN(const int32_t token, sampler.sample(from));
        if (job.n_logprobs >= 0) {
            next = {
                token, log_probability(logits, token),
                job.n_logprobs > 0 ? top_log_probabilities(logits, job.n_logprobs) : std::vector<std::pair<int32_t, float>>()};
        }
        const double now = since_submitted.seconds();
        if (n_generated++ == 0) {
            first_s = now;
            if (job.tells_progress) { events->push({index, Progress{std::ssize(job.tokens), now - started_s}}); }
        } else {
            metrics.between_tokens.add(now - last_s);
        }
        last_s = now;
        if (!job.ignore_eos && std::ranges::find(end_tokens, token) != end_tokens.end()) { ended = true; }
        return token;
    }

    // false: a stop text has come.
    bool say(int32_t token) {
        if (job.n_logprobs >= 0) { held.push_back(std::move(next)); }
        std::string piece = tokenizer.piece(token);
        if (piece.empty()) {
            std::string name = tokenizer.piece(token, /*special=*/true);
            if (parser.wants(name)) { piece = std::move(name); }
        }
        tell(parser.add(text.add(piece)));
        return !is_over() && !is_late();
    }

    bool is_late() const { return job.deadline_s > 0 && since_submitted.seconds() > job.deadline_s; }

    // By a stop text, or a call behind which nothing may come.
    bool is_over() const { return text.stopped() || parser.is_over(); }

    void tell(AnswerPiece said) {
        if (said.says_nothing()) { return; }  // what is held back goes with the text that comes
        said.logprobs = std::exchange(held, {});
        if (job.tells_timings) { said.costs = std::make_shared<const AnswerCosts>(costs()); }
        events->push({index, std::move(said)});
    }

    AnswerCosts costs() const {
        AnswerCosts costs;
        costs.n_prompt = std::ssize(job.tokens);
        costs.n_cached = engine != nullptr ? engine->n_cached(id) : 0;
        costs.n_generated = n_generated;
        costs.queue_s = started_s;
        costs.prompt_s = first_s - started_s;
        costs.predict_s = last_s - first_s;
        return costs;
    }

    Job job;
    int index = 0;
    std::shared_ptr<Events> events;
    Sampler sampler;
    AnswerText text;
    AnswerParser parser;
    const Tokenizer & tokenizer;
    const std::vector<int32_t> & end_tokens;
    Metrics & metrics;
    const Engine * engine = nullptr;  // set, once it is submitted
    int64_t id = 0;                   // the engine's
    bool done = false;
    bool started = false;
    bool ended = false;  // by the model
    int64_t n_generated = 0;
    int64_t n_told = 0;  // of the prompt, to who asked for progress
    size_t slot = std::numeric_limits<size_t>::max();
    Stopwatch since_submitted;
    double map_s = -kMapS;   // when the newest map was told
    bool is_mapped = false;  // behind its prompt
    bool late = false;       // cancelled at its deadline
    double started_s = 0;
    double first_s = 0;
    double last_s = 0;
    TokenLogprob next;
    std::vector<TokenLogprob> held;  // of tokens whose text is held back
    std::vector<float> changed;
};

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

Status Generator::submit(std::vector<Job> jobs, const std::shared_ptr<Events> & events) {
    std::vector<std::unique_ptr<Run>> runs;
    for (size_t i = 0; i < jobs.size(); ++i) {
        PITH_ASSIGN_OR_RETURN(Sampler sampler, Sampler::make(jobs[i].sampler, &tokenizer_));
        for (const int32_t token : jobs[i].tokens) { sampler.accept(token); }  // penalties look back on the prompt
        runs.push_back(std::make_unique<Run>(std::move(jobs[i]), static_cast<int>(i), events, std::move(sampler), tokenizer_,
                                             end_tokens_, metrics_));
    }
    {
        const std::lock_guard lock(mutex_);
        const int64_t n_waiting = state_.n_waiting + std::ssize(inbox_);
        const bool full = n_waiting >= options_.most_waiting || ending_;
        for (auto & run : runs) {
            if (full) {
                ++n_refused_;
                events->push({run->index, Failed{{ErrorCode::kOutOfMemory, "too many requests wait: try again later"}, true}});
                continue;
            }
            ++n_open_;
            inbox_.push_back(std::move(run));
        }
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

GeneratorState Generator::state() const {
    const std::lock_guard lock(mutex_);
    return state_;
}

void Generator::work() {
    int n_failed = 0;  // steps, one after the other
    for (bool more = false;;) {
        std::deque<std::unique_ptr<Run>> came;
        {
            std::unique_lock lock(mutex_);
            if (!more) {
                wake_.wait(lock, [this] { return ending_ || woken_ || !inbox_.empty(); });
            }
            woken_ = false;
            if (ending_) { break; }
            came.swap(inbox_);
        }
        for (auto & run : came) { begin(std::move(run)); }
        const Stopwatch step;
        const auto stepped = engine_.step(&stop_step_);
        n_failed = stepped.ok() ? 0 : n_failed + 1;
        if (n_failed >= kMostFailedSteps) {  // not one request's fault: none of them would ever end
            for (auto & run : runs_) { (void)engine_.cancel(run->id); }
        }
        metrics_.n_busy += engine_.ledger().n_running;
        look_after_runs(step);
        more = stepped.ok() ? *stepped : !runs_.empty();
        tell_state();
        for (auto & [events, event] : ended_) {  // whoever has an answer finds it counted
            events->push(std::move(event));
            --n_open_;
        }
        ended_.clear();
    }
    // Whoever still waits is told.
    for (auto & run : runs_) {
        if (!run->done) { run->events->push({run->index, Failed{{ErrorCode::kCancelled, "the server ends"}}}); }
    }
    const std::lock_guard lock(mutex_);
    for (auto & run : inbox_) { run->events->push({run->index, Failed{{ErrorCode::kCancelled, "the server ends"}}}); }
    inbox_.clear();
}

void Generator::begin(std::unique_ptr<Run> owned) {
    Run & run = *owned;
    const auto give_up = [&](const Status & status) {
        run.events->push({run.index, Failed{status}});
        --n_open_;
    };
    if (run.events->abandoned()) { return give_up({ErrorCode::kCancelled, "nobody waits for it"}); }
    const auto request_for = [&run](const SessionOptions & options) {
        Request request;
        request.tokens = run.job.tokens;
        request.options = options;
        request.max_tokens = run.job.max_tokens;
        request.cache_name = run.job.cache_name;
        request.cache_at = run.job.cache_at;
        request.use_cache = run.job.uses_cache;
        request.keep = run.job.max_tokens == 0;
        if (!run.job.ignore_eos) { request.stop = run.end_tokens; }
        request.choose = [&run](std::span<const float> logits) { return run.choose(logits); };
        request.on_token = [&run](int32_t token) { return run.say(token); };
        return request;
    };
    auto id = engine_.submit(request_for(run.job.session));
    if (id.status().code() == ErrorCode::kBudget && run.job.may_evict) {
        SessionOptions smaller = run.job.session;
        const auto ceiling = static_cast<double>(engine_.ledger().ceiling_bytes);
        smaller.budget = Budget(BudgetKind::kBytes, kShareOfCeiling * ceiling);
        id = engine_.submit(request_for(smaller));
    }
    if (!id.ok()) { return give_up(id.status()); }
    run.engine = &engine_;
    run.id = *id;
    run.events->push({run.index, Accepted{}});
    runs_.push_back(std::move(owned));
}

void Generator::look_after_runs(const Stopwatch & step) {
    for (auto & run : runs_) {
        if (run->events->abandoned() && engine_.state(run->id) < RequestState::kDone) { (void)engine_.cancel(run->id); }
        if (run->is_late() && run->n_generated == 0 && engine_.state(run->id) < RequestState::kDone) {
            run->late = engine_.cancel(run->id).ok();
        }
        const RequestState state = engine_.state(run->id);
        if (run->job.tells_map && (state == RequestState::kReading || state == RequestState::kAnswering)) {
            // At the prompt's end at any rate: that is what the answer goes on from.
            tell_map(*run, state == RequestState::kAnswering && !std::exchange(run->is_mapped, true));
        }
        if (!run->started && state != RequestState::kWaiting) {
            run->started = true;
            run->started_s = std::max(0.0, run->since_submitted.seconds() - step.seconds());  // it began with the step
            const auto free = std::ranges::find(slots_, 0);
            run->slot = static_cast<size_t>(free - slots_.begin());
            if (free == slots_.end()) { slots_.push_back(0); }
            slots_[run->slot] = run->id;
        }
        if (state == RequestState::kReading && run->job.tells_progress) {
            const auto ledger = engine_.ledger(run->id);
            if (ledger.ok() && ledger->n_tokens > run->n_told) {
                run->n_told = ledger->n_tokens;
                run->events->push({run->index, Progress{run->n_told, run->since_submitted.seconds() - run->started_s}});
            }
        }
        if (state >= RequestState::kDone) { end(*run); }
    }
    std::erase_if(runs_, [](const auto & run) { return run->done; });
    while (std::ssize(slots_) > std::max(kDefaultSlots, options_.engine.max_sequences) && slots_.back() == 0) {
        slots_.pop_back();
    }
}

void Generator::end(Run & run) {
    const RequestState state = engine_.state(run.id);
    if (state == RequestState::kDone) {
        AnswerEnd answer;
        if (run.n_generated == 0) { run.first_s = run.last_s = run.since_submitted.seconds(); }  // the prompt was all
        answer.costs = run.costs();
        if (auto ledger = engine_.ledger(run.id); ledger.ok()) { answer.costs.ledger = std::move(*ledger); }
        answer.by_length = !run.ended && !run.is_over();
        answer.stop = run.text.stop();
        run.tell(run.parser.add(run.text.finish()));
        run.tell(run.parser.finish());
        answer.has_called = run.parser.has_called();
        if (!run.held.empty()) { run.events->push({run.index, AnswerPiece{{}, std::exchange(run.held, {}), {}}}); }
        metrics_.add(answer.costs);
        ended_.emplace_back(run.events, Event{run.index, std::move(answer)});
    } else {
        ++(state == RequestState::kCancelled ? metrics_.n_cancelled : metrics_.n_failed);
        Failed failed{engine_.status(run.id)};
        if (run.late) {
            failed.late = true;
            failed.status = {ErrorCode::kCancelled, "nothing was said within " + format_number(run.job.deadline_s) +
                                                        " s, which is this request's limit: raise it, or try again later"};
        }
        ended_.emplace_back(run.events, Event{run.index, std::move(failed)});
    }
    (void)engine_.forget(run.id);
    if (run.slot < slots_.size()) { slots_[run.slot] = 0; }
    run.done = true;
}

void Generator::tell_map(Run & run, bool at_once) const {
    const double now = run.since_submitted.seconds();
    if (!at_once && now - run.map_s < kMapS) { return; }
    const auto ledger = engine_.ledger(run.id);
    if (!ledger.ok() || ledger->n_tokens == 0) { return; }
    run.map_s = now;
    KvMap map(ledger->n_tokens, model_.n_layers, model_.n_kv_heads);
    for (int layer = 0; layer < model_.n_layers; ++layer) {
        for (int head = 0; head < model_.n_kv_heads; ++head) {
            map.set_lane(layer, head, engine_.lane_positions(run.id, layer, head));
        }
    }
    map.set_pinned(run.job.session.pinned);
    run.events->push({run.index, std::move(map)});
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
