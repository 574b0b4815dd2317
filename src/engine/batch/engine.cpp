// engine.cpp - requests come in, steps run them, answers go out. Stage: engine.
#include <algorithm>
#include <atomic>
#include <map>
#include <string>
#include <utility>

#include "core/guarded.h"
#include "core/stopwatch.h"
#include "core/text.h"
#include "device/available_memory.h"
#include "engine/batch/batch_pass.h"
#include "engine/batch/step_plan.h"
#include "engine/batch/turn.h"
#include "engine/execution.h"
#include "engine/memory.h"
#include "engine/model_parts.h"
#include "pith/batch_engine.h"

namespace pith {

const char * name_of(RequestState state) {
    switch (state) {
        case RequestState::kWaiting:
            return "waiting";
        case RequestState::kReading:
            return "reading";
        case RequestState::kAnswering:
            return "answering";
        case RequestState::kSetAside:
            return "set aside";
        case RequestState::kDone:
            return "done";
        case RequestState::kFailed:
            return "failed";
        case RequestState::kCancelled:
            return "cancelled";
    }
    return "unknown";
}

struct Engine::Impl {
    static constexpr int kMaxEvicting = 4;  // requests that begin with an eviction, in a step

    Model model;
    EngineOptions options;
    std::shared_ptr<Execution> execution;
    BatchPass pass;
    std::map<int64_t, std::unique_ptr<Turn>> turns;
    int64_t next_id = 1;
    bool changed = false;  // since the last admission: a request came or ended
    bool in_step = false;
    EngineLedger ledger;

    Impl(Model of, EngineOptions with, std::shared_ptr<Execution> on)
        : model(std::move(of)),
          options(with),
          execution(std::move(on)),
          pass(std::shared_ptr<Forward>(execution, &execution->forward)) {}

    // As users see it.
    Turn * asked(int64_t id) {
        Turn * turn = find(id);
        return turn == nullptr || turn->forgotten() ? nullptr : turn;
    }
    Turn * find(int64_t id) {
        const auto found = turns.find(id);
        return found == turns.end() ? nullptr : found->second.get();
    }

    // scheduling
    std::vector<Turn *> running() const;
    size_t reserved_bytes() const;
    void admit();
    void start(Turn & turn);
    void choose_first_tokens();
    bool has_room(const Turn & turn, std::span<Turn * const> without = {}) const;
    bool make_room(const Turn & turn);

    // a step
    void run_pieces(std::span<const StepPiece> plan, std::span<Turn * const> candidates);
    void run_alone(Turn & turn, int64_t n);
    void advance(Turn & turn, int64_t n);
    void count_bytes(const Turn * ran = nullptr);
    void drop_forgotten();
    const Turn * base_of(const Turn & turn) { return turn.request().after == 0 ? nullptr : find(turn.request().after); }
    bool step();
    size_t activation_bytes() const { return execution->forward.activation_bytes() + pass.size_bytes(); }
};

// ---- scheduling ----

std::vector<Turn *> Engine::Impl::running() const {
    std::vector<Turn *> found;
    for (const auto & [id, turn] : turns) {
        if (turn->running()) { found.push_back(turn.get()); }
    }
    return found;
}

size_t Engine::Impl::reserved_bytes() const {
    size_t bytes = 0;
    for (const auto & [id, turn] : turns) { bytes += turn->running() || turn->kept() ? turn->reserved_bytes() : 0; }
    return bytes;
}

// Whether it may run beside those that run, and under the ceiling. without: of these, some that are imagined gone.
bool Engine::Impl::has_room(const Turn & turn, std::span<Turn * const> without) const {
    int64_t n_running = -std::ssize(without);
    int n_layered = 0;
    for (const auto & [id, other] : turns) {
        n_running += other->running() ? 1 : 0;
        n_layered += other->state() == RequestState::kReading && other->reads_layers() ? 1 : 0;
    }
    if (options.max_sequences > 0 && n_running >= options.max_sequences) { return false; }
    if (turn.state() == RequestState::kWaiting && turn.reads_layers() && n_layered >= kMaxLayered) { return false; }
    size_t reserved = reserved_bytes();
    for (const Turn * one : without) { reserved -= one->reserved_bytes(); }
    return ledger.ceiling_bytes == 0 || reserved + turn.reserved_bytes() <= ledger.ceiling_bytes;
}

// Answers of lower priority are set aside, the lowest and latest first, where that is enough.
bool Engine::Impl::make_room(const Turn & turn) {
    std::vector<Turn *> victims;
    for (Turn * other : running()) {
        const bool lower = other->request().priority < turn.request().priority;
        if (lower && other->can_go_aside()) { victims.push_back(other); }
    }
    std::ranges::stable_sort(victims, [](const Turn * a, const Turn * b) {
        if (a->request().priority != b->request().priority) { return a->request().priority < b->request().priority; }
        return a->id() > b->id();
    });
    size_t n = 0;
    while (n < victims.size() && !has_room(turn, std::span(victims).first(n))) { ++n; }
    victims.resize(n);
    if (!has_room(turn, victims)) { return false; }
    for (Turn * victim : victims) {
        if (!victim->set_aside().ok()) { break; }  // no room on disk: it waits, unless it fits now
    }
    return has_room(turn);
}

// Whoever waits, by priority, then by age: nobody is overtaken by a smaller one that would fit.
void Engine::Impl::admit() {
    if (!changed) { return; }
    std::vector<Turn *> waiting;
    for (const auto & [id, turn] : turns) {
        if (turn->state() == RequestState::kWaiting || turn->state() == RequestState::kSetAside) {
            waiting.push_back(turn.get());
        }
    }
    std::ranges::stable_sort(waiting, std::greater<>(), [](const Turn * turn) { return turn->request().priority; });
    bool again = false;
    int n_evicting = 0;
    for (Turn * turn : waiting) {
        // Everybody's next token waits for these.
        if (turn->request().evict && ++n_evicting > kMaxEvicting) {
            again = true;
            break;
        }
        if (!has_room(*turn) && !make_room(*turn)) {
            const bool hopeless = std::ranges::none_of(turns, [](const auto & one) { return one.second->running(); });
            if (!hopeless) { break; }
            // Nothing will become free by itself.
            turn->fail({ErrorCode::kBudget,
                        "the request may come to need " + with_commas(static_cast<int64_t>(turn->reserved_bytes())) +
                            " bytes of KV cache, and requests that are kept take " +
                            with_commas(static_cast<int64_t>(reserved_bytes())) + " of the ceiling of " +
                            with_commas(static_cast<int64_t>(ledger.ceiling_bytes)) + ": forget some of them"});
        } else if (turn->state() == RequestState::kSetAside) {
            turn->bring_back();
        } else {
            start(*turn);
        }
        again = again || turn->ended();
    }
    changed = again;
}

void Engine::Impl::start(Turn & turn) {
    const Stopwatch watch;
    turn.start(base_of(turn), ledger.n_steps);
    if (turn.request().evict || turn.request().tokens.empty()) { ledger.evict_s += watch.seconds(); }
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
    const auto is_read = [&](int64_t id) {
        return std::ranges::any_of(
            turns, [&](const auto & other) { return other.second->request().after == id && !other.second->ended(); });
    };
    const size_t n_gone =
        std::erase_if(turns, [&](const auto & one) { return one.second->forgotten() && !is_read(one.first); });
    changed = changed || n_gone > 0;
}

// ---- a step ----

// ran: a layered prompt's unit has just run, in which its lanes were longer than they are now.
void Engine::Impl::count_bytes(const Turn * ran) {
    size_t bytes = 0;
    size_t most = 0;
    size_t undo = 0;
    for (const auto & [id, turn] : turns) {
        bytes += turn->kv_bytes(/*at_most=*/false);
        most += turn->kv_bytes(/*at_most=*/turn.get() == ran);
        undo += turn->undo_bytes();
    }
    ledger.undo_peak_bytes = std::max(ledger.undo_peak_bytes, undo);
    ledger.kv_peak_bytes = std::max(ledger.kv_peak_bytes, most);
    ledger.kv_allocated_bytes = bytes;
}

// The turn's n tokens are in its lanes.
void Engine::Impl::advance(Turn & turn, int64_t n) {
    const Stopwatch watch;
    (turn.state() == RequestState::kReading ? ledger.n_prompt : ledger.n_generated) += n;
    turn.advance(n, ledger.n_steps);
    ledger.evict_s += watch.seconds();
}

// A piece that gates are asked about, or that a failed pass held.
void Engine::Impl::run_alone(Turn & turn, int64_t n) {
    if (turn.state() == RequestState::kAnswering && !turn.open_token(/*beside_prompts=*/false)) { return; }
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
    const bool has_prompts = std::ranges::any_of(plan, [&](const StepPiece & one) {
        return candidates[static_cast<size_t>(one.candidate)]->state() == RequestState::kReading;
    });
    for (const StepPiece & one : plan) {
        Turn * turn = candidates[static_cast<size_t>(one.candidate)];
        if (!turn->can_share()) {
            alone.emplace_back(turn, one.n);
        } else if (turn->state() == RequestState::kReading || turn->open_token(has_prompts)) {
            shared.emplace_back(turn, one.n);
            pieces.push_back(turn->piece(one.n));
        }
    }
    if (!pieces.empty()) {
        const Stopwatch watch;
        const Status status = guarded([&] { return pass.run(pieces); });
        ledger.pass_s += watch.seconds();
        count_bytes();
        for (const auto & [turn, n] : shared) {
            if (!turn->running()) { continue; }  // cancelled by another's hook
            // Whose fault it was is not known: each tries once more by itself.
            status.ok() ? advance(*turn, n) : turn->take_back(status);
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
    std::vector<RequestState> states;
    for (const Turn * turn : candidates) {
        wants.push_back(turn->candidate());
        states.push_back(turn->state());
    }
    const StepPlan plan = plan_step(wants, options.max_rows);
    ++ledger.n_steps;
    run_pieces(plan.pieces, candidates);
    const auto n_read = static_cast<double>(ledger.n_prompt - before.n_prompt);
    const auto n_fed = static_cast<double>(ledger.n_generated - before.n_generated);
    if (plan.layered >= 0 && candidates[static_cast<size_t>(plan.layered)]->running()) {  // not cancelled meanwhile
        Turn & turn = *candidates[static_cast<size_t>(plan.layered)];
        const Stopwatch watch;
        turn.advance_layered(ledger.n_steps);
        unit_s = watch.seconds();
        ledger.pass_s += unit_s;
        ledger.units_s += unit_s;
        ledger.longest_unit_s = std::max(ledger.longest_unit_s, unit_s);
        const bool read = turn.state() == RequestState::kAnswering || turn.state() == RequestState::kDone;
        if (read) { ledger.n_prompt += std::ssize(turn.request().tokens); }
        count_bytes(&turn);
    }
    // Who ends frees memory, who has read makes room for another reader, and may be set aside from now on.
    for (size_t i = 0; i < candidates.size(); ++i) { changed = changed || candidates[i]->state() != states[i]; }
    ledger.kv_reserved_bytes = reserved_bytes();
    count_bytes();
    ledger.activation_peak_bytes = std::max(ledger.activation_peak_bytes, activation_bytes());
    const double step_s = all.seconds();
    const double decode_s = n_fed > 0 ? (step_s - unit_s) * n_fed / (n_read + n_fed) : 0;
    ledger.step_s += step_s;
    ledger.decode_s += decode_s;
    ledger.prefill_s += step_s - decode_s;
    ledger.schedule_s += step_s - (ledger.pass_s + ledger.evict_s - before.pass_s - before.evict_s);
    return std::ranges::any_of(turns, [](const auto & one) { return !one.second->ended(); });
}

// ---- the public face ----

Engine::Engine(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Engine::Engine(Engine &&) noexcept = default;
Engine & Engine::operator=(Engine &&) noexcept = default;
Engine::~Engine() = default;

namespace {

Result<size_t> ceiling_of(const Model & model, const Budget & ceiling) {
    switch (ceiling.kind) {
        case BudgetKind::kNone:
            return size_t{0};
        case BudgetKind::kBytes:
            PITH_RETURN_IF_ERROR(ceiling.check());
            return static_cast<size_t>(ceiling.value);
        case BudgetKind::kAuto: {
            const auto left = static_cast<double>(available_memory(mapped_bytes(file_of(model))));
            if (left > 0) { return static_cast<size_t>(kUsableMemory * left); }
            return {ErrorCode::kUnsupported,
                    "the engine's ceiling is auto, and this system does not say how much memory is left: give it in bytes"};
        }
        default:
            return {ErrorCode::kInvalidArgument, "the engine's ceiling is " + ceiling.to_string() +
                                                     ": it bounds the memory of all sequences, so give bytes (512M) or auto"};
    }
}

Status not_found(int64_t id) {
    return {ErrorCode::kNotFound, "there is no request " + std::to_string(id)};
}

}  // namespace

Result<Engine> Model::engine(const EngineOptions & options) const {
    return guarded([&]() -> Result<Engine> {
        if (options.max_rows < 1 || options.max_sequences < 0 || options.n_threads < 0) {
            return {ErrorCode::kInvalidArgument,
                    "an engine needs at least 1 row a step, and no negative number of sequences or threads"};
        }
        PITH_ASSIGN_OR_RETURN(const size_t ceiling, ceiling_of(*this, options.ceiling));
        PITH_ASSIGN_OR_RETURN(auto execution, make_execution(*this, options.n_threads));
        auto impl = std::make_unique<Engine::Impl>(*this, options, std::move(execution));
        impl->ledger.ceiling_bytes = ceiling;
        return Engine(std::move(impl));
    });
}

Result<int64_t> Engine::submit(Request request) {
    return guarded([&]() -> Result<int64_t> {
        auto turn = std::make_unique<Turn>(impl_->next_id, std::move(request));
        const int64_t after = turn->request().after;
        const Turn * base = after == 0 ? nullptr : impl_->asked(after);
        if (after != 0 && (base == nullptr || !base->kept())) {
            return {ErrorCode::kInvalidArgument, "Request::after is " + std::to_string(after) +
                                                     ": no request of this number is done and was submitted with keep"};
        }
        PITH_RETURN_IF_ERROR(turn->prepare(impl_->model, impl_->options, impl_->execution, base));
        const size_t ceiling = impl_->ledger.ceiling_bytes;
        if (ceiling > 0 && turn->reserved_bytes() > ceiling) {
            return {ErrorCode::kBudget,
                    "the request may come to need " + with_commas(static_cast<int64_t>(turn->reserved_bytes())) +
                        " bytes of KV cache, and the ceiling for all is " + with_commas(static_cast<int64_t>(ceiling)) +
                        ": give it a smaller --budget or --chunk, a shorter answer, or raise the ceiling"};
        }
        impl_->turns.emplace(impl_->next_id, std::move(turn));
        impl_->changed = true;
        return impl_->next_id++;
    });
}

Status Engine::cancel(int64_t id) {
    return guarded([&]() -> Status {
        Turn * turn = impl_->asked(id);
        if (turn == nullptr || turn->ended()) { return not_found(id); }
        turn->cancel();
        impl_->changed = true;
        return {};
    });
}

Status Engine::forget(int64_t id) {
    return guarded([&]() -> Status {
        Turn * turn = impl_->asked(id);
        if (turn == nullptr) { return not_found(id); }
        if (impl_->in_step) { return {ErrorCode::kInvalidArgument, "forget() was called by a hook of step()"}; }
        if (!turn->ended()) {
            return {ErrorCode::kInvalidArgument, "request " + std::to_string(id) + " has not ended: cancel it first"};
        }
        turn->set_forgotten();
        impl_->drop_forgotten();
        impl_->count_bytes();
        return {};
    });
}

Result<bool> Engine::step() {
    if (impl_->in_step) { return {ErrorCode::kInvalidArgument, "step() was called by a hook of step()"}; }
    impl_->in_step = true;
    const Result<bool> more = guarded([&]() -> Result<bool> { return impl_->step(); });
    impl_->in_step = false;
    return more;
}

Status Engine::run(const std::atomic<bool> * cancel) {
    for (bool more = true; more;) {
        if (cancel != nullptr && cancel->load()) { return {ErrorCode::kCancelled, "cancelled between two steps"}; }
        PITH_ASSIGN_OR_RETURN(more, step());
    }
    return {};
}

RequestState Engine::state(int64_t id) const {
    const Turn * turn = impl_->asked(id);
    return turn == nullptr ? RequestState::kFailed : turn->state();
}

Status Engine::status(int64_t id) const {
    return guarded([&]() -> Status {
        const Turn * turn = impl_->asked(id);
        return turn == nullptr ? not_found(id) : turn->status();
    });
}

std::span<const int32_t> Engine::answer(int64_t id) const {
    const Turn * turn = impl_->asked(id);
    return turn == nullptr ? std::span<const int32_t>() : turn->answer();
}

Result<Ledger> Engine::ledger(int64_t id) const {
    return guarded([&]() -> Result<Ledger> {
        const Turn * turn = impl_->asked(id);
        if (turn == nullptr) { return not_found(id); }
        if (turn->running()) { turn->session()->update_ledger(); }  // tokens of a prompt that is still being read
        return turn->ledger();
    });
}

std::span<const int32_t> Engine::lane_positions(int64_t id, int layer, int kv_head) const {
    const Turn * turn = impl_->asked(id);
    if (turn == nullptr || turn->session() == nullptr || !turn->session()->seq.cache) { return {}; }
    const RaggedCache & cache = *turn->session()->seq.cache;
    return cache.positions(cache.lane(0, layer, kv_head));
}

EngineLedger Engine::ledger() const {
    EngineLedger ledger = impl_->ledger;
    ledger.evidence_s = impl_->execution->forward.evidence_s();
    size_t of_model = 0;  // factors of W_O and the like: all its sequences share them
    for (const auto & [id, turn] : impl_->turns) {
        ledger.n_waiting += turn->state() == RequestState::kWaiting ? 1 : 0;
        ledger.n_running += turn->running() ? 1 : 0;
        ledger.n_set_aside += turn->state() == RequestState::kSetAside ? 1 : 0;
        ledger.kv_kept_bytes += turn->kept() ? turn->kv_bytes(/*at_most=*/false) : 0;
        ledger.evidence_bytes += turn->evidence_bytes();
        ledger.undo_bytes += turn->undo_bytes();
        ledger.sequence_bytes += turn->other_bytes();
        if (turn->session() != nullptr) { of_model = turn->session()->output->size_bytes(); }
    }
    ledger.weight_bytes = file_of(impl_->model).resident_copies_bytes();
    ledger.activation_bytes = impl_->activation_bytes();
    ledger.evidence_bytes += of_model;
    return ledger;
}

}  // namespace pith
