// evict.cpp - one eviction, all its stages in order. Stage: engine.
#include <algorithm>
#include <utility>

#include "core/stopwatch.h"
#include "device/cpu_threads.h"
#include "engine/session_impl.h"

namespace pith {
namespace {

constexpr size_t kScoredTogetherBytes = size_t{16} << 20U;

size_t bytes_of(const LayerEvidence & evidence) {
    size_t n = evidence.positions.size() * sizeof(int32_t);
    for (const Ragged<float> * rows :
         {&evidence.window_mean,    &evidence.window_max, &evidence.window_sq,    &evidence.window_head_sq,
          &evidence.window_pairs,   &evidence.last_query, &evidence.running_sum,  &evidence.key_norm,
          &evidence.key_cosine,     &evidence.expected,   &evidence.value_l1,     &evidence.value_l2,
          &evidence.output_l1,      &evidence.output_l2,  &evidence.output_pairs, &evidence.retention,
          &evidence.profile,        &evidence.reread_max, &evidence.sampled_rows, &evidence.key_leverage,
          &evidence.block_attention}) {
        n += rows->size() * sizeof(float);
    }
    return n;
}

}  // namespace

bool Session::Impl::over_budget() const {
    return evicts() && seq.cache->n_entries() > seq.plan->budget * shape().n_lanes();
}

// Policies see governed layers alone; importances are of all that the model has.
void Session::Impl::choose_governed_heads() {
    governed_heads = options.heads;
    if (!options.heads || layout.governs_all()) { return; }
    auto chosen = std::make_shared<HeadImportance>();
    const auto n = static_cast<size_t>(shape().n_heads());
    const auto choose = [&](const std::vector<double> & from, std::vector<double> & to) {
        for (const int layer : governed) {
            const auto first = from.begin() + static_cast<std::ptrdiff_t>(static_cast<size_t>(layer) * n);
            to.insert(to.end(), first, first + static_cast<std::ptrdiff_t>(n));
        }
    };
    choose(options.heads->copy, chosen->copy);
    choose(options.heads->reason, chosen->reason);
    governed_heads = std::move(chosen);
}

EvictionTarget Session::Impl::target() const {
    EvictionTarget target{shape(), seq.plan->budget, options.pinned, governed_heads};
    if (!observers.empty()) {  // they are the newest, and the budget is without them
        target.budget += std::ssize(observers);
        target.pinned.push_back(
            {static_cast<int32_t>(seq.n_tokens - std::ssize(observers)), static_cast<int32_t>(seq.n_tokens)});
    }
    target.run_tasks = tasks_on(forward->observer());
    target.cancel = forward->cancel();
    return target;
}

Result<LayerEvidence> Session::Impl::gather(int layer, const EvidenceNeeds & needs) {
    const Stopwatch watch;
    auto result = seq.evidence.gather(forward->observer(), *seq.cache, 0, layer, seq.n_tokens, needs);
    if (result.ok()) { result->layer = governed_index(layer); }
    ledger.evidence_s += watch.seconds();
    return result;
}

// All layers at once: after a chunk, and in decode.
Status Session::Impl::evict_all(bool is_last) {
    seq.since_eviction = 0;
    if (!over_budget()) { return {}; }
    if (seq.policy.rereads()) { PITH_RETURN_IF_ERROR(read_again()); }
    PITH_ASSIGN_OR_RETURN(const std::vector<LayerPlan> plans, plan_all());
    return apply(plans, is_last);
}

// What the session's evidence is made for: a policy's, and what evict() may ask for later.
std::vector<EvidenceNeeds> Session::Impl::all_needs(const EvidenceNeeds & of_policy) const {
    std::vector<EvidenceNeeds> needs = observed;
    if (evicts()) { needs.push_back(of_policy); }
    return needs;
}

// The evidence of the policy; with observers there, all of them are its last queries.
Result<LayerEvidence> Session::Impl::gather(int layer) {
    auto seen = gather(layer, needs_in_sight());
    if (seen.ok() && !observers.empty() && seq.policy.needs().last_query) { seen->last_query = seen->window_mean; }
    return seen;
}

// What the newest chunk keeps with the question behind it. The question's tokens run as queries and are taken back: what they
// added to lanes and evidence is gone when the plan is applied, whether or not anything failed.
Status Session::Impl::evict_in_sight_of(std::span<const int32_t> question) {
    seq.since_eviction = 0;
    const int64_t n_lanes = shape().n_lanes();
    const int64_t n_counted = observers.empty() ? std::ssize(question) : 0;  // of a question that stays
    if (seq.cache->n_entries() + n_counted * n_lanes <= seq.plan->budget * n_lanes) { return {}; }
    if (seq.policy.rereads()) { return evict_all(/*is_last=*/false); }  // no question is asked what it looks for
    const std::vector<int> lengths = seq.lane_lengths();
    std::vector<int> governed_lengths;  // [layer of the model][K], 0 where policies do not govern
    for (int l = 0; l < n_layers(); ++l) {
        for (int h = 0; h < shape().n_kv_heads; ++h) {
            governed_lengths.push_back(layout.governs(l) ? lengths[static_cast<size_t>(seq.cache->lane(0, l, h))] : 0);
        }
    }
    EvidenceState evidence_before = seq.evidence;
    RecurrentStates states_before = seq.states;
    const int64_t n_before = seq.n_tokens;

    Status status;
    for (auto rest = question; status.ok() && !rest.empty();) {
        const auto piece = rest.first(std::min(rest.size(), static_cast<size_t>(seq.plan->chunk)));
        status = run_layers(piece, /*all_states=*/false);
        rest = rest.subspan(piece.size());
    }
    std::vector<LayerPlan> plans;
    if (status.ok() && over_budget()) {
        auto planned = plan_all();
        status = planned.status();
        if (planned.ok()) { plans = std::move(*planned); }
    }
    seq.truncate(lengths);
    seq.evidence.restore(std::move(evidence_before), governed_lengths);
    seq.states = std::move(states_before);
    seq.n_tokens = n_before;
    PITH_RETURN_IF_ERROR(status);

    leave_out_observers(plans);
    return apply(plans, /*is_last=*/false);
}

// Layers are scored side by side, as many at a time as their evidence leaves memory for.
Result<std::vector<LayerPlan>> Session::Impl::plan_all() {
    EvictionPass pass(seq.policy, target(), /*cascade=*/false, /*n_to_come=*/0);
    std::vector<LayerEvidence> seen;
    size_t bytes = 0;
    for (const int layer : governed) {
        PITH_ASSIGN_OR_RETURN(LayerEvidence one, gather(layer));
        bytes += bytes_of(one);
        seen.push_back(std::move(one));
        if (bytes < kScoredTogetherBytes && layer != governed.back()) { continue; }
        const Stopwatch watch;
        PITH_RETURN_IF_ERROR(pass.add_layers(seen));
        ledger.plan_s += watch.seconds();
        seen.clear();
        bytes = 0;
    }
    const Stopwatch watch;
    PITH_ASSIGN_OR_RETURN(std::vector<LayerPlan> plans, pass.finish());
    ledger.plan_s += watch.seconds();
    return of_model(std::move(plans));
}

Status Session::Impl::apply(std::span<const LayerPlan> plans, bool is_last) {
    if (plans.empty()) { return {}; }
    const Stopwatch watch;
    const CancelScope not_now(*forward, nullptr);  // it would end on one thread what it has begun on many
    PITH_ASSIGN_OR_RETURN(const int64_t n_gone, seq.compact(plans, /*evicts=*/true, is_last, tasks_on(forward->observer())));
    ledger.evicted_entries += n_gone;
    ++ledger.n_evictions;
    ledger.compact_s += watch.seconds();
    return {};
}

}  // namespace pith
