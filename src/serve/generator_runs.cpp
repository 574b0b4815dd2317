// generator_runs.cpp - jobs become an engine's requests, and what it says events. Stage: serve.
#include <algorithm>
#include <utility>

#include "core/text.h"
#include "serve/generator_run.h"

namespace pith::serve {
namespace {

constexpr double kShareOfCeiling = 0.5;  // what a request may take that would need more than all
constexpr double kMostPinned = 0.5;      // of a budget, what a system prompt may take that nobody asked to pin

}  // namespace

// ---- requests ----

void Generator::begin(std::unique_ptr<Run> owned) {
    Run & run = *owned;
    if (run.events->abandoned()) { return fail(run, {ErrorCode::kCancelled, "nobody waits for it"}); }
    const Status begun = run.reading ? begin_reading(run) : begin_alone(run);
    if (!begun.ok()) {
        run.events->push({run.index, Failed{begun}});
        --n_open_;
        return;
    }
    run.engine = &engine_;
    run.events->push({run.index, Accepted{}});
    runs_.push_back(std::move(owned));
}

Status Generator::begin_alone(Run & run) {
    PITH_ASSIGN_OR_RETURN(run.id, submit_alone(run));
    return {};
}

// The first of those who share a prompt asks for it, once it is known that the engine would take the whole of one.
Status Generator::begin_reading(Run & run) {
    Reading & reading = *run.reading;
    if (!std::exchange(reading.is_asked_for, true)) {
        PITH_ASSIGN_OR_RETURN(const int64_t whole, submit_alone(run));
        drop(whole);
        Request prompt = run.request(run.session);
        prompt.keep = true;
        prompt.max_tokens = 0;
        prompt.choose = nullptr;
        prompt.on_token = nullptr;
        if (const auto id = engine_.submit(std::move(prompt)); id.ok()) {
            reading.id = *id;
            reading.session = run.session;
            readings_.push_back(run.reading);
        }
    }
    if (reading.id == 0) {
        run.reading.reset();
        return begin_alone(run);
    }
    run.id = reading.id;
    run.session = reading.session;
    return {};
}

Result<int64_t> Generator::submit_alone(Run & run) {
    auto id = submit_pinned(run, run.job.session);
    if (id.status().code() == ErrorCode::kBudget && run.job.may_evict) {
        SessionOptions smaller = run.job.session;
        const auto ceiling = static_cast<double>(engine_.ledger().ceiling_bytes);
        smaller.budget = Budget(BudgetKind::kBytes, kShareOfCeiling * ceiling);
        id = submit_pinned(run, smaller);
    }
    return id;
}

// With its system prompt pinned, where that is wanted and leaves room enough; where nothing is evicted, nothing need be pinned.
Result<int64_t> Generator::submit_pinned(Run & run, const SessionOptions & session) {
    run.session = session;
    if (run.job.n_system > 0 && session.budget.kind != BudgetKind::kNone) {
        run.session.pinned.push_back({0, run.job.n_system});
        const auto id = engine_.submit(run.request(run.session));
        if (!id.ok() && id.status().code() != ErrorCode::kBudget) { return id; }
        const auto ledger = id.ok() ? engine_.ledger(*id) : Result<Ledger>(id.status());
        const double most = ledger.ok() ? kMostPinned * static_cast<double>(ledger->budget_entries) : 0;
        if (run.job.n_system <= most) { return id; }
        if (id.ok()) { drop(*id); }
        run.session = session;
    }
    return engine_.submit(run.request(run.session));
}

void Generator::drop(int64_t id) {
    static_cast<void>(engine_.cancel(id));
    static_cast<void>(engine_.forget(id));
}

// ---- prompts that are read for several ----

void Generator::go_on_from_readings(const Stopwatch & step) {
    for (auto & run : runs_) {
        if (!run->reading) { continue; }
        const int64_t reading = run->reading->id;
        const RequestState state = engine_.state(reading);
        if (state < RequestState::kDone) { continue; }
        if (run->is_first && !run->started) { start(*run, step); }
        run->reading.reset();
        const Status status = engine_.status(reading);
        if (state == RequestState::kDone) {
            go_on_from(*run, reading);
        } else if (status.code() == ErrorCode::kBudget) {  // prompts that are kept for others take too much
            read_alone(*run);
        } else {
            fail(*run, status);
        }
    }
}

// Its answer begins with what follows the prompt.
void Generator::go_on_from(Run & run, int64_t reading) {
    const auto id = engine_.submit(run.request_after(reading));
    if (!id.ok()) { return read_alone(run); }
    run.id = *id;
    run.goes_on = true;
    run.prompt.n_cached = engine_.n_cached(reading);
    const auto ledger = engine_.ledger(reading);
    if (!ledger.ok()) { return; }
    run.prompt.n_evicted = ledger->evicted_entries;
    run.prompt.bytes = ledger->kv_allocated_bytes;
}

// There is no room for it beside the prompt that others go on from: it stands in line again, by itself.
void Generator::read_alone(Run & run) {
    run.goes_on = false;
    const auto id = submit_alone(run);
    if (!id.ok()) { return fail(run, id.status()); }
    run.id = *id;
}

// Of readings that nobody waits for any more the engine keeps what answers go on from, as long as they do.
void Generator::drop_readings() {
    std::erase_if(readings_, [this](const std::shared_ptr<Reading> & reading) {
        if (reading.use_count() > 1) { return false; }
        drop(reading->id);
        return true;
    });
}

// ---- what runs ----

void Generator::look_after_runs(const Stopwatch & step) {
    go_on_from_readings(step);
    for (auto & run : runs_) {
        if (!run->done) { look_after(*run, step); }
    }
    std::erase_if(runs_, [](const auto & run) { return run->done; });
    drop_readings();
    const auto n_shown = static_cast<size_t>(std::max(kDefaultSlots, options_.engine.max_sequences));
    while (slots_.size() > n_shown && slots_.back() == 0) { slots_.pop_back(); }
}

void Generator::look_after(Run & run, const Stopwatch & step) {
    const bool is_open = engine_.state(run.id) < RequestState::kDone;
    // Whoever says something looks at the time itself.
    const bool says_nothing = run.n_generated == 0 || engine_.state(run.id) == RequestState::kSetAside;
    run.late = run.late || (is_open && says_nothing && run.is_late());
    if (is_open && (run.late || run.events->abandoned())) {
        if (run.reading) { return fail(run, {ErrorCode::kCancelled, "nobody waits for it"}); }
        static_cast<void>(engine_.cancel(run.id));
    }
    if (run.reading && !run.is_first) { return; }  // the first of them stands for all
    const RequestState state = engine_.state(run.id);
    if (run.job.tells_map && (state == RequestState::kReading || state == RequestState::kAnswering)) {
        // At the prompt's end at any rate: that is what the answer goes on from.
        tell_map(run, state == RequestState::kAnswering && !std::exchange(run.is_mapped, true));
    }
    if (!run.started && state != RequestState::kWaiting) { start(run, step); }
    if (state == RequestState::kReading && run.job.tells_progress) { tell_progress(run); }
    if (state >= RequestState::kDone) { end(run); }
}

void Generator::start(Run & run, const Stopwatch & step) {
    run.started = true;
    run.started_s = std::max(0.0, run.since_submitted.seconds() - step.seconds());  // it began with the step
    const auto free = std::ranges::find(slots_, 0);
    run.slot = static_cast<size_t>(free - slots_.begin());
    if (free == slots_.end()) { slots_.push_back(0); }
    slots_[run.slot] = run.id;
}

void Generator::end(Run & run) {
    const RequestState state = engine_.state(run.id);
    const Status status = engine_.status(run.id);
    const bool has_no_room = state == RequestState::kFailed && status.code() == ErrorCode::kBudget;
    if (has_no_room && run.goes_on && run.n_generated == 0) {
        drop(run.id);
        return read_alone(run);
    }
    if (state == RequestState::kDone || ((run.cut || run.late) && run.n_generated > 0)) {
        end_answer(run);
    } else {
        fail(run, status);
    }
    drop(run.id);
}

void Generator::end_answer(Run & run) {
    AnswerEnd answer;
    if (run.n_generated == 0) { run.first_s = run.last_s = run.since_submitted.seconds(); }  // the prompt was all
    auto ledger = engine_.ledger(run.id);
    answer.costs = run.costs_with(ledger.ok() ? std::move(*ledger) : Ledger());
    answer.prompt = run.job.prompt;
    answer.by_length = !run.ended && !run.is_over();
    answer.stop = run.text.stop();
    run.tell(run.parser.add(run.text.finish()));
    run.tell(run.parser.finish());
    answer.has_called = run.parser.has_called();
    if (!run.held.empty()) { run.events->push({run.index, AnswerPiece{{}, std::exchange(run.held, {}), {}}}); }
    metrics_.add(answer.costs);
    ended_.emplace_back(run.events, Event{run.index, std::move(answer)});
    if (run.slot < slots_.size()) { slots_[run.slot] = 0; }
    run.done = true;
}

void Generator::fail(Run & run, const Status & status) {
    Failed failed{status};
    if (run.cut) {
        ++metrics_.n_cut;
        failed.status = {ErrorCode::kCancelled, "the server ends: ask again, or another one"};
    } else if (run.broken) {
        ++metrics_.n_failed;
        failed.status = *run.broken;
    } else if (run.late) {
        ++metrics_.n_late;
        failed.late = true;
        failed.status = {ErrorCode::kCancelled, "nothing was said within " + format_number(run.job.deadline_s) +
                                                    " s, which is this request's limit: raise it, or try again later"};
    } else {
        ++(status.code() == ErrorCode::kCancelled ? metrics_.n_cancelled : metrics_.n_failed);
    }
    ended_.emplace_back(run.events, Event{run.index, std::move(failed)});
    if (run.slot < slots_.size()) { slots_[run.slot] = 0; }
    run.reading.reset();
    run.done = true;
}

void Generator::cut_runs() {
    for (auto & run : runs_) {
        run->cut = true;
        if (run->reading) {
            fail(*run, {ErrorCode::kCancelled, "the server ends"});
        } else {
            static_cast<void>(engine_.cancel(run->id));
        }
    }
}

// ---- what is told on the way ----

void Generator::tell_progress(Run & run) const {
    const int64_t n_read = engine_.n_read(run.id);
    if (n_read <= run.n_told) { return; }
    run.n_told = n_read;
    run.events->push({run.index, Progress{run.n_cached(), run.n_told, run.since_submitted.seconds() - run.started_s}});
}

void Generator::tell_map(Run & run, bool at_once) const {
    const double now = run.since_submitted.seconds();
    if (!at_once && now - run.map_s < std::max(kMapS, kMapShare * run.map_cost_s)) { return; }
    const auto ledger = engine_.ledger(run.id);
    if (!ledger.ok() || ledger->n_tokens == 0) { return; }
    run.map_s = now;
    KvMap map(ledger->n_tokens, model_.n_layers, model_.n_kv_heads);
    for (int layer = 0; layer < model_.n_layers; ++layer) {
        for (int head = 0; head < model_.n_kv_heads; ++head) {
            map.set_lane(layer, head, engine_.lane_positions(run.id, layer, head));
        }
    }
    map.set_pinned(run.session.pinned);
    run.map_cost_s = run.since_submitted.seconds() - now;
    run.events->push({run.index, std::move(map)});
}

}  // namespace pith::serve
