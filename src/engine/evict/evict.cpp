// evict.cpp - layers are scored side by side, and compacted together.
#include "engine/evict/evict.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "core/stopwatch.h"
#include "device/cpu_threads.h"
#include "engine/evict/observers.h"
#include "engine/evict/plan_there.h"
#include "engine/evict/reread.h"
#include "engine/evict/turn.h"
#include "engine/pass/session_ledger.h"
#include "engine/pass/token_pass.h"

namespace pith {
size_t bytes_of(const LayerEvidence & evidence) {
    size_t n = evidence.positions.size() * sizeof(int32_t);
    for (const Ragged<float> * rows :
         {&evidence.window_mean,     &evidence.window_max,  &evidence.window_sq,    &evidence.window_head_sq,
          &evidence.window_pairs,    &evidence.last_query,  &evidence.running_sum,  &evidence.key_norm,
          &evidence.key_cosine,      &evidence.expected,    &evidence.value_l1,     &evidence.value_l2,
          &evidence.output_l1,       &evidence.output_l2,   &evidence.output_pairs, &evidence.retention,
          &evidence.profile,         &evidence.reread_max,  &evidence.sampled_rows, &evidence.key_leverage,
          &evidence.block_attention, &evidence.window_rows, &evidence.key_rows,     &evidence.value_rows}) {
        n += rows->size() * sizeof(float);
    }
    return n + evidence.window_queries.size() * sizeof(float);
}

namespace {

// Layers are scored side by side, as many at a time as their evidence leaves memory for.
Result<std::vector<LayerPlan>> plan_all(LiveSession & session) {
    if (observes_there(session)) {
        LiveSession * const one = &session;
        return std::move(plan_there(std::span(&one, 1)).front());
    }
    EvictionPass pass(session.seq.policy, eviction_target(session), /*cascade=*/false, /*n_to_come=*/0);
    std::vector<LayerEvidence> seen;
    size_t bytes = 0;
    for (const int layer : session.governed) {
        PITH_ASSIGN_OR_RETURN(LayerEvidence one, gather_evidence(session, layer));
        bytes += bytes_of(one);
        seen.push_back(std::move(one));
        if (bytes < kScoredTogetherBytes && layer != session.governed.back()) { continue; }
        const Stopwatch watch;
        PITH_RETURN_IF_ERROR(pass.add_layers(seen));
        session.ledger.plan_s += watch.seconds();
        seen.clear();
        bytes = 0;
    }
    const Stopwatch watch;
    PITH_ASSIGN_OR_RETURN(std::vector<LayerPlan> plans, pass.finish());
    session.ledger.plan_s += watch.seconds();
    return session.of_model(std::move(plans));
}

}  // namespace

bool over_budget(const LiveSession & session) {
    return session.seq.must_evict(session.seq.cache->n_entries(), session.shape().n_lanes());
}

EvictionTarget eviction_target(const LiveSession & session) {
    const Sequence & seq = session.seq;
    const int64_t n_read = seq.n_tokens - std::ssize(session.observers);
    EvictionTarget target{session.shape(), seq.plan->budget_at(n_read), session.options.pinned, session.governed_heads};
    target.most_of_lane = most_of_lane(session);
    if (!session.observers.empty()) {  // they are the newest, and the budget is without them
        const auto n = std::ssize(session.observers);
        target.budget += n;
        target.pinned.push_back({static_cast<int32_t>(seq.n_tokens - n), static_cast<int32_t>(seq.n_tokens)});
    }
    target.run_tasks = tasks_on(session.forward->observer());
    target.cancel = session.forward->cancel();
    return target;
}

std::vector<EvidenceNeeds> all_needs(const LiveSession & session, const EvidenceNeeds & of_policy) {
    std::vector<EvidenceNeeds> needs = session.observed;
    if (session.seq.evicts()) { needs.push_back(of_policy); }
    return needs;
}

namespace {

Result<LayerEvidence> gather(LiveSession & session, int layer, const EvidenceNeeds & needs, Observed * seen) {
    const Sequence & seq = session.seq;
    const Stopwatch watch;
    auto result = seq.evidence.gather(session.forward->observer(), *seq.cache, 0, layer, seq.n_tokens, needs, seen);
    if (result.ok()) { result->layer = session.governed_index(layer); }
    session.ledger.evidence_s += watch.seconds();
    return result;
}

}  // namespace

Result<LayerEvidence> gather_evidence(LiveSession & session, int layer, const EvidenceNeeds & needs) {
    return gather(session, layer, needs, nullptr);
}

Result<LayerEvidence> gather_evidence(LiveSession & session, int layer, Observed * seen) {
    const Policy & policy = session.seq.policy;
    auto evidence = gather(session, layer, needs_in_sight(policy, session.observers), seen);
    if (evidence.ok() && !session.observers.empty() && policy.needs().last_query) {
        evidence->last_query = evidence->window_mean;
    }
    return evidence;
}

PlannedEviction::State state_of(const LiveSession & session) {
    EvictionTarget target = eviction_target(session);
    return {session.seq.n_tokens, session.seq.n_moves(), session.seq.cache->n_entries(), target.budget,
            target.most_of_lane,  session.seq.policy,    std::move(target.pinned)};
}

bool has_to_evict(const LiveSession & session) {
    const int64_t most = most_of_lane(session);
    return over_budget(session) || (most > 0 && session.seq.cache->longest() > most);
}

Status evict_all(LiveSession & session, bool is_last) {
    const std::optional<PlannedEviction> planned = std::exchange(session.planned, std::nullopt);
    session.seq.since_eviction = 0;
    tell_budget(session);
    if (!has_to_evict(session)) { return {}; }
    if (session.seq.policy.rereads()) { PITH_RETURN_IF_ERROR(read_again(session)); }
    if (planned && planned->made_of == state_of(session)) { return apply_plans(session, planned->plans, is_last); }
    PITH_ASSIGN_OR_RETURN(const std::vector<LayerPlan> plans, plan_all(session));
    return apply_plans(session, plans, is_last);
}

Status evict_in_sight_of(LiveSession & session, std::span<const int32_t> question) {
    Sequence & seq = session.seq;
    seq.since_eviction = 0;
    const int64_t n_lanes = session.shape().n_lanes();
    const int64_t n_counted = session.observers.empty() ? std::ssize(question) : 0;  // of a question that stays
    if (!seq.must_evict(seq.cache->n_entries() + n_counted * n_lanes, n_lanes)) { return {}; }
    if (seq.policy.rereads()) {  // no question is asked what it looks for: none stands in the lanes either
        const auto observers = std::exchange(session.observers, {});
        const Status status = evict_all(session, /*is_last=*/false);
        session.observers = observers;
        return status;
    }
    const std::vector<int> lengths = seq.lane_lengths();
    std::vector<int> governed_lengths;  // [layer of the model][K], 0 where policies do not govern
    for (int l = 0; l < session.n_layers(); ++l) {
        for (int h = 0; h < session.shape().n_kv_heads; ++h) {
            const bool governs = session.layout.governs(l);
            governed_lengths.push_back(governs ? lengths[static_cast<size_t>(seq.cache->lane(0, l, h))] : 0);
        }
    }
    EvidenceState evidence_before = seq.evidence;
    RecurrentStates states_before = seq.states;
    GateState gates_before = seq.gate_state;
    const int64_t n_before = seq.n_tokens;

    Status status;
    for (auto rest = question; status.ok() && !rest.empty();) {
        const auto piece = rest.first(std::min(rest.size(), static_cast<size_t>(seq.plan->chunk)));
        status = run_pass(session, {.session = &session, .tokens = piece, .may_look_back = true});
        rest = rest.subspan(piece.size());
    }
    std::vector<LayerPlan> plans;
    if (status.ok() && over_budget(session)) {
        auto planned = plan_all(session);
        status = planned.status();
        if (planned.ok()) { plans = std::move(*planned); }
    }
    seq.truncate(lengths);
    seq.evidence.restore(std::move(evidence_before), governed_lengths);
    seq.states = std::move(states_before);
    seq.gate_state = std::move(gates_before);
    seq.n_tokens = n_before;
    PITH_RETURN_IF_ERROR(status);

    leave_out_observers(session, plans);
    return apply_plans(session, plans, /*is_last=*/false);
}

Status apply_plans(LiveSession & session, std::span<const LayerPlan> plans, bool is_last) {
    if (plans.empty()) { return {}; }
    const Stopwatch watch;
    Forward & forward = *session.forward;
    const CancelScope not_now(forward, nullptr);  // it would end on one thread what it has begun on many
    PITH_ASSIGN_OR_RETURN(const int64_t n_gone,
                          session.seq.compact(plans, /*evicts=*/true, is_last, tasks_on(forward.observer())));
    session.ledger.evicted_entries += n_gone;
    ++session.ledger.n_evictions;
    session.ledger.compact_s += watch.seconds();
    return {};
}

}  // namespace pith
