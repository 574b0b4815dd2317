// engine_steps.cpp - one step of all that run. Stage: engine.
#include <algorithm>
#include <atomic>
#include <utility>

#include "core/guarded.h"
#include "core/stopwatch.h"
#include "engine/batch/engine_impl.h"
#include "engine/evict/evict.h"
#include "engine/evict/plan_there.h"

namespace pith {

namespace {

// What these evict, and leave, moves at once, where there is memory to see to that.
template <class Jobs, class JobOf>
std::vector<std::unique_ptr<LaneStore::HeldMoves>> moves_held_of(const Jobs & jobs, JobOf job_of) noexcept {
    std::vector<std::unique_ptr<LaneStore::HeldMoves>> held;
    static_cast<void>(guarded([&]() -> Status {
        std::vector<RaggedCache *> caches;
        for (const auto & one : jobs) {
            const EngineJob & job = job_of(one);
            if (job.session() != nullptr && job.session()->seq.cache) { caches.push_back(job.session()->seq.cache.get()); }
        }
        held = RaggedCache::hold_moves(caches);
        return {};
    }));
    return held;
}

}  // namespace

std::vector<EngineJob *> Engine::Impl::running() const {
    std::vector<EngineJob *> found;
    for (const auto & [id, job] : jobs) {
        if (job->running()) { found.push_back(job.get()); }
    }
    return found;
}

// Of those who have nothing to read: the logits are those that their base ended with.
void Engine::Impl::choose_first_tokens() {
    for (EngineJob * job : running()) {
        if (!job->wants_first_token()) { continue; }  // or cancelled by another's hook
        const Stopwatch watch;
        job->choose_token();
        ledger.evict_s += watch.seconds();
        changed = changed || job->ended();
    }
}

// Of those whose prompts have come to where that is done.
void Engine::Impl::look_for_evicted() {
    for (EngineJob * job : running()) {
        if (!job->looks()) { continue; }
        const Stopwatch watch;
        const int64_t n_read = job->n_read();
        job->look(ledger.n_steps);
        ledger.n_prompt += job->n_read() - n_read;  // it may be taken back
        ledger.evict_s += watch.seconds();
        count_bytes(job);
        changed = changed || !job->running();
    }
}

// Where nobody reads a prompt any more: a pass's rows on devices are as many as the longest piece had tokens, and its graphs
// lie there, too. Who has read to the end has released its own; who was cancelled between two steps has not.
void Engine::Impl::release_devices_behind_prompts() {
    const auto reads = [](const auto & one) { return one.second->state() == RequestState::kReading; };
    if (!has_read || std::ranges::any_of(jobs, reads)) { return; }
    has_read = false;
    pass.states_there().release();
    execution->forward.release_devices();
}

// In a step what shares its pass is held already.
void Engine::Impl::hold_moves() noexcept {
    if (in_step || !held_moves.empty()) { return; }
    held_moves = moves_held_of(jobs, [](const auto & one) -> EngineJob & { return *one.second; });
}

void Engine::Impl::settle_moves() {
    if (in_step || held_moves.empty()) { return; }
    held_moves.clear();
    settle_bytes();
}

// Kept requests that were forgotten go when nobody reads their entries any more. (One that went on from there and is kept
// itself has copied them.)
void Engine::Impl::drop_forgotten() {
    const size_t n_gone = std::erase_if(
        jobs, [&](const auto & one) { return one.second->forgotten() && !is_read(one.first, /*by_running=*/false); });
    changed = changed || n_gone > 0;
}

// ran: a layered prompt's unit has just run, in which its lanes were longer than they are now; so are those of who looks back.
void Engine::Impl::count_bytes(const EngineJob * ran) {
    size_t bytes = store ? store->shared().bytes() : 0;
    size_t most = bytes;
    size_t undo = 0;
    for (const auto & [id, job] : jobs) {
        const size_t states = job->state_bytes(base_of(*job));
        bytes += job->kv_bytes(/*at_most=*/false) + states;
        most += job->kv_bytes(/*at_most=*/job.get() == ran || job->looks_back()) + states;
        undo += job->undo_bytes();
    }
    ledger.undo_peak_bytes = std::max(ledger.undo_peak_bytes, undo);
    ledger.kv_peak_bytes = std::max(ledger.kv_peak_bytes, most);
    ledger.kv_allocated_bytes = bytes;
}

// What all hold and may come to hold, behind a step.
void Engine::Impl::settle_bytes() {
    ledger.kv_reserved_bytes = reserved_bytes();
    count_bytes();
}

// The job's n tokens are in its lanes.
void Engine::Impl::advance(EngineJob & job, int64_t n) {
    const Stopwatch watch;
    const bool answers = job.state() == RequestState::kAnswering;
    const bool advanced = job.advance(n, ledger.n_steps);
    ledger.n_generated += answers && advanced ? n : 0;
    const std::atomic<bool> * cancel = execution->forward.cancel();
    while (job.is_ahead() && !(cancel != nullptr && cancel->load()) && job.open_token(/*by_layers=*/false)) {
        static_cast<void>(job.draft(0, 0));  // what n-grams foretold is counted
        if (const Status status = job.run_alone(1); !status.ok()) {
            job.take_back(status);
        } else if (job.advance(1, ledger.n_steps)) {
            ++ledger.n_generated;
        }
    }
    ledger.evict_s += watch.seconds();
}

// Of answers, in a pass of single tokens: as many rows as are left. Nothing of it can fail.
void Engine::Impl::add_drafts(std::span<PassPiece> pieces, std::span<const std::pair<EngineJob *, int64_t>> of_jobs) const {
    auto n_rows = static_cast<int>(pieces.size());
    for (size_t i = 0; i < pieces.size(); ++i) {
        pieces[i].draft = of_jobs[i].first->draft(options.max_rows - n_rows, n_rows - 1);
        n_rows += static_cast<int>(pieces[i].draft.size());
    }
}

// Of those that may share a pass, one on a device where there is one: a pass is of sequences that lie alike, and the others,
// whose policy keeps their lanes on this machine, run alone. Null: none may.
const CacheLayout * where_to_share(std::span<const StepPiece> plan, std::span<EngineJob * const> candidates) {
    const CacheLayout * here = nullptr;
    for (const StepPiece & one : plan) {
        const EngineJob & job = *candidates[static_cast<size_t>(one.candidate)];
        if (!job.can_share()) { continue; }
        const CacheLayout & layout = job.session()->layout;
        if (layout.any_on_device()) { return &layout; }
        here = &layout;
    }
    return here;
}

// A piece that gates are asked about, that lies elsewhere than others, or that a failed pass held.
void Engine::Impl::run_alone(EngineJob & job, int64_t n) {
    if (job.state() == RequestState::kAnswering && !job.open_token(/*by_layers=*/false)) { return; }
    const Stopwatch watch;
    const Status status = job.run_alone(n);
    ledger.pass_s += watch.seconds();
    count_bytes();
    status.ok() ? advance(job, n) : job.fail(status);
}

// Of those that the tokens of a pass make due. Where there is one alone, it plans by itself.
void Engine::Impl::plan_evictions(std::span<const std::pair<EngineJob *, int64_t>> of_jobs) {
    const Stopwatch watch;
    static_cast<void>(guarded([&]() -> Status {
        std::vector<LiveSession *> due;
        for (size_t i = 0; i < of_jobs.size(); ++i) {
            const auto & [job, n] = of_jobs[i];
            if (!job->running() || !pass.outcome(i).ok() || !observes_there(*job->session()) || !job->evicts_behind(n)) {
                continue;
            }
            LiveSession & session = *job->session();
            if (!session.seq.policy.rereads() && has_to_evict(session)) { due.push_back(&session); }
        }
        if (due.size() > 1) { plan_together(due); }
        return {};
    }));
    ledger.evict_s += watch.seconds();
}

void Engine::Impl::run_pieces(std::span<const StepPiece> plan, std::span<EngineJob * const> candidates) {
    std::vector<PassPiece> pieces;
    std::vector<std::pair<EngineJob *, int64_t>> shared;
    std::vector<std::pair<EngineJob *, int64_t>> alone;
    pieces.reserve(plan.size());  // nothing may fail between the calls that open and the pass
    shared.reserve(plan.size());
    alone.reserve(plan.size());
    const CacheLayout * const where = where_to_share(plan, candidates);
    const auto shares = [&](const EngineJob & job) { return job.can_share() && job.session()->layout.lies_as(*where); };
    // One of these, and the pass goes layer by layer: all of its pieces' evidence is told before it may fail.
    const bool by_layers = std::ranges::any_of(plan, [&](const StepPiece & one) {
        const EngineJob & job = *candidates[static_cast<size_t>(one.candidate)];
        return job.state() == RequestState::kReading || (shares(job) && !can_run_tokens(*job.session()));
    });
    for (const StepPiece & one : plan) {
        EngineJob * job = candidates[static_cast<size_t>(one.candidate)];
        if (!shares(*job)) {
            alone.emplace_back(job, one.n);
        } else if (job->state() == RequestState::kReading || job->open_token(by_layers)) {
            shared.emplace_back(job, one.n);
            pieces.push_back(job->piece(one.n));
        }
    }
    if (!by_layers) { add_drafts(pieces, shared); }
    if (!pieces.empty()) {
        const Stopwatch watch;
        const Status status = guarded([&] { return pass.run(pieces); });
        ledger.pass_s += watch.seconds();
        count_bytes();
        if (status.ok()) { plan_evictions(shared); }
        const auto held = moves_held_of(shared, [](const auto & one) -> EngineJob & { return *one.first; });
        for (size_t i = 0; i < shared.size(); ++i) {
            const auto & [job, n] = shared[i];
            if (!job->running()) { continue; }  // cancelled by another's hook
            if (!status.ok()) {                 // whose fault it was is not known: each tries once more by itself
                job->take_back(status);
            } else if (!pass.outcome(i).ok()) {
                job->fail(pass.outcome(i));
            } else {
                advance(*job, n);
            }
            if (job->session() != nullptr) { job->session()->planned.reset(); }  // what it did not come to
        }
    }
    for (const auto & [job, n] : alone) {
        if (job->running()) { run_alone(*job, n); }
    }
}

bool Engine::Impl::step() {
    const Stopwatch all;
    const EngineLedger before = ledger;
    double unit_s = 0;  // of a prompt that is read layer by layer
    drop_forgotten();
    held_moves.clear();
    admit();
    choose_first_tokens();
    look_for_evicted();
    let_answers_go_on();
    const std::vector<EngineJob *> candidates = who_may_run();
    std::vector<StepCandidate> wants;
    struct Was {
        RequestState state;
        int64_t n_read;
    };
    std::vector<Was> were;
    for (const EngineJob * job : candidates) {
        wants.push_back(job->candidate());
        were.push_back({job->state(), job->n_read()});
        has_read = has_read || job->state() == RequestState::kReading;
    }
    const StepPlan plan = plan_step(wants, options.max_rows, ledger.n_steps + 1);
    ++ledger.n_steps;
    run_pieces(plan.pieces, candidates);
    double n_read = 0;  // in the pass; a prompt that is taken back reads less than nothing, and later all of it again
    for (size_t i = 0; i < candidates.size(); ++i) {
        n_read += static_cast<double>(std::max<int64_t>(candidates[i]->n_read() - were[i].n_read, 0));
    }
    const auto n_fed = static_cast<double>(ledger.n_generated - before.n_generated);
    if (plan.layered >= 0 && candidates[static_cast<size_t>(plan.layered)]->running()) {  // not cancelled meanwhile
        EngineJob & job = *candidates[static_cast<size_t>(plan.layered)];
        const Stopwatch watch;
        job.advance_layered(ledger.n_steps);
        unit_s = watch.seconds();
        ledger.pass_s += unit_s;
        ledger.units_s += unit_s;
        ledger.longest_unit_s = std::max(ledger.longest_unit_s, unit_s);
        count_bytes(&job);
    }
    if (store) { store->shared().trim(); }
    // Who ends frees memory, who has read makes room for another reader, and may be set aside from now on.
    for (size_t i = 0; i < candidates.size(); ++i) {
        changed = changed || candidates[i]->state() != were[i].state;
        ledger.n_prompt += candidates[i]->n_read() - were[i].n_read;
    }
    drop_forgotten();
    release_devices_behind_prompts();
    settle_bytes();
    ledger.activation_peak_bytes = std::max(ledger.activation_peak_bytes, activation_bytes());
    const double step_s = all.seconds();
    const double decode_s = n_fed > 0 ? (step_s - unit_s) * n_fed / (n_read + n_fed) : 0;
    ledger.step_s += step_s;
    ledger.decode_s += decode_s;
    ledger.prefill_s += step_s - decode_s;
    ledger.schedule_s += step_s - (ledger.pass_s + ledger.evict_s - before.pass_s - before.evict_s);
    return std::ranges::any_of(jobs, [](const auto & one) { return !one.second->ended(); });
}

}  // namespace pith
