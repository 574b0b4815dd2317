// engine_steps.cpp - one step of all that run. Stage: engine.
#include <algorithm>
#include <utility>

#include "core/guarded.h"
#include "core/stopwatch.h"
#include "engine/batch/engine_impl.h"

namespace pith {

std::vector<Turn *> Engine::Impl::running() const {
    std::vector<Turn *> found;
    for (const auto & [id, turn] : turns) {
        if (turn->running()) { found.push_back(turn.get()); }
    }
    return found;
}

// Of those who have nothing to read: the logits are those that their base ended with.
void Engine::Impl::choose_first_tokens() {
    for (Turn * turn : running()) {
        if (!turn->wants_first_token()) { continue; }  // or cancelled by another's hook
        const Stopwatch watch;
        turn->choose_token();
        ledger.evict_s += watch.seconds();
        changed = changed || turn->ended();
    }
}

// Kept requests that were forgotten go when nobody reads their entries any more. (One that went on from there and is kept
// itself has copied them.)
void Engine::Impl::drop_forgotten() {
    const size_t n_gone = std::erase_if(
        turns, [&](const auto & one) { return one.second->forgotten() && !is_read(one.first, /*by_running=*/false); });
    changed = changed || n_gone > 0;
}

// ran: a layered prompt's unit has just run, in which its lanes were longer than they are now.
void Engine::Impl::count_bytes(const Turn * ran) {
    size_t bytes = store ? store->shared().bytes() : 0;
    size_t most = bytes;
    size_t undo = 0;
    for (const auto & [id, turn] : turns) {
        const size_t states = turn->state_bytes(base_of(*turn));
        bytes += turn->kv_bytes(/*at_most=*/false) + states;
        most += turn->kv_bytes(/*at_most=*/turn.get() == ran) + states;
        undo += turn->undo_bytes();
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

// The turn's n tokens are in its lanes.
void Engine::Impl::advance(Turn & turn, int64_t n) {
    const Stopwatch watch;
    const bool answers = turn.state() == RequestState::kAnswering;
    const bool advanced = turn.advance(n, ledger.n_steps);
    ledger.n_generated += answers && advanced ? n : 0;
    ledger.evict_s += watch.seconds();
}

// A piece that gates are asked about, or that a failed pass held.
void Engine::Impl::run_alone(Turn & turn, int64_t n) {
    if (turn.state() == RequestState::kAnswering && !turn.open_token(/*by_layers=*/false)) { return; }
    const Stopwatch watch;
    const Status status = turn.run_alone(n);
    ledger.pass_s += watch.seconds();
    count_bytes();
    status.ok() ? advance(turn, n) : turn.fail(status);
}

void Engine::Impl::run_pieces(std::span<const StepPiece> plan, std::span<Turn * const> candidates) {
    std::vector<PassPiece> pieces;
    std::vector<std::pair<Turn *, int64_t>> shared;
    std::vector<std::pair<Turn *, int64_t>> alone;
    pieces.reserve(plan.size());  // nothing may fail between the calls that open and the pass
    shared.reserve(plan.size());
    alone.reserve(plan.size());
    // One of these, and the pass goes layer by layer: all of its pieces' evidence is told before it may fail.
    const bool by_layers = std::ranges::any_of(plan, [&](const StepPiece & one) {
        const Turn & turn = *candidates[static_cast<size_t>(one.candidate)];
        return turn.state() == RequestState::kReading || (turn.can_share() && !pass.can_run_tokens(*turn.session()));
    });
    for (const StepPiece & one : plan) {
        Turn * turn = candidates[static_cast<size_t>(one.candidate)];
        if (!turn->can_share()) {
            alone.emplace_back(turn, one.n);
        } else if (turn->state() == RequestState::kReading || turn->open_token(by_layers)) {
            shared.emplace_back(turn, one.n);
            pieces.push_back(turn->piece(one.n));
        }
    }
    if (!pieces.empty()) {
        const Stopwatch watch;
        const Status status = guarded([&] { return pass.run(pieces); });
        ledger.pass_s += watch.seconds();
        count_bytes();
        for (size_t i = 0; i < shared.size(); ++i) {
            const auto & [turn, n] = shared[i];
            if (!turn->running()) { continue; }  // cancelled by another's hook
            if (!status.ok()) {                  // whose fault it was is not known: each tries once more by itself
                turn->take_back(status);
            } else if (!pass.outcome(i).ok()) {
                turn->fail(pass.outcome(i));
            } else {
                advance(*turn, n);
            }
        }
    }
    for (const auto & [turn, n] : alone) {
        if (turn->running()) { run_alone(*turn, n); }
    }
}

bool Engine::Impl::step() {
    const Stopwatch all;
    const EngineLedger before = ledger;
    double unit_s = 0;  // of a prompt that is read layer by layer
    drop_forgotten();
    admit();
    choose_first_tokens();
    const std::vector<Turn *> candidates = running();
    std::vector<StepCandidate> wants;
    struct Was {
        RequestState state;
        int64_t n_read;
    };
    std::vector<Was> were;
    for (const Turn * turn : candidates) {
        wants.push_back(turn->candidate());
        were.push_back({turn->state(), turn->n_read()});
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
        Turn & turn = *candidates[static_cast<size_t>(plan.layered)];
        const Stopwatch watch;
        turn.advance_layered(ledger.n_steps);
        unit_s = watch.seconds();
        ledger.pass_s += unit_s;
        ledger.units_s += unit_s;
        ledger.longest_unit_s = std::max(ledger.longest_unit_s, unit_s);
        count_bytes(&turn);
    }
    if (store) { store->shared().trim(); }
    // Who ends frees memory, who has read makes room for another reader, and may be set aside from now on.
    for (size_t i = 0; i < candidates.size(); ++i) {
        changed = changed || candidates[i]->state() != were[i].state;
        ledger.n_prompt += candidates[i]->n_read() - were[i].n_read;
    }
    settle_bytes();
    ledger.activation_peak_bytes = std::max(ledger.activation_peak_bytes, activation_bytes());
    const double step_s = all.seconds();
    const double decode_s = n_fed > 0 ? (step_s - unit_s) * n_fed / (n_read + n_fed) : 0;
    ledger.step_s += step_s;
    ledger.decode_s += decode_s;
    ledger.prefill_s += step_s - decode_s;
    ledger.schedule_s += step_s - (ledger.pass_s + ledger.evict_s - before.pass_s - before.evict_s);
    return std::ranges::any_of(turns, [](const auto & one) { return !one.second->ended(); });
}

}  // namespace pith
