// evict.cpp - one eviction, all its stages in order. Stage: engine.
#include <algorithm>
#include <functional>
#include <utility>

#include "attention/cpu_threads.h"
#include "core/stopwatch.h"
#include "engine/session_impl.h"

namespace pith {

bool Session::Impl::over_budget() const {
    return evicts() && cache->n_entries() > plan->budget * shape().n_lanes();
}

EvictionTarget Session::Impl::target() const {
    EvictionTarget target{shape(), plan->budget, options.pinned, options.heads};
    GraphRunner & runner = forward->observer();
    if (runner.custom_operations()) { target.run_tasks = std::bind_front(run_tasks, std::ref(runner)); }
    return target;
}

Result<LayerEvidence> Session::Impl::gather(int layer, const EvidenceNeeds & needs) {
    const Stopwatch watch;
    auto result = evidence.gather(forward->observer(), *cache, 0, layer, n_tokens, needs);
    ledger.evidence_s += watch.seconds();
    return result;
}

// All layers at once: after a chunk, and in decode.
Status Session::Impl::evict_all() {
    since_eviction = 0;
    if (!over_budget()) { return {}; }
    PITH_ASSIGN_OR_RETURN(const std::vector<LayerPlan> plans, plan_all());
    return apply(plans);
}

// What the newest chunk keeps with the question behind it. The question's tokens run as queries and are taken back: what they
// added to lanes and evidence is gone when the plan is applied, whether or not anything failed.
Status Session::Impl::evict_in_sight_of(std::span<const int32_t> question) {
    since_eviction = 0;
    const int64_t n_lanes = shape().n_lanes();
    if (cache->n_entries() + std::ssize(question) * n_lanes <= plan->budget * n_lanes) { return {}; }
    const std::vector<int> lengths = lane_lengths();
    EvidenceState evidence_before = evidence;
    const int64_t n_before = n_tokens;

    Status status = run_layers(question, /*all_states=*/false);
    std::vector<LayerPlan> plans;
    if (status.ok() && over_budget()) {
        auto planned = plan_all();
        status = planned.status();
        if (planned.ok()) { plans = std::move(*planned); }
    }
    const auto n_kv = static_cast<size_t>(shape().n_kv_heads);
    for (int l = 0; l < shape().n_layers; ++l) {
        cache->truncate(0, l, std::span(lengths).subspan(static_cast<size_t>(l) * n_kv, n_kv));
    }
    evidence = std::move(evidence_before);
    n_tokens = n_before;
    PITH_RETURN_IF_ERROR(status);

    for (LayerPlan & one : plans) {  // the question's own entries are no longer there
        Ragged<int32_t> keep;
        for (int h = 0; h < shape().n_kv_heads; ++h) {
            const auto row = one.keep.row(h);
            const int length = lengths[static_cast<size_t>(one.layer) * n_kv + static_cast<size_t>(h)];
            keep.push_row(row.first(static_cast<size_t>(std::ranges::lower_bound(row, length) - row.begin())));
        }
        one.keep = std::move(keep);
    }
    return apply(plans);
}

Result<std::vector<LayerPlan>> Session::Impl::plan_all() {
    EvictionPass pass(policy, target(), /*cascade=*/false, /*n_to_come=*/0);
    for (int layer = 0; layer < shape().n_layers; ++layer) {
        PITH_ASSIGN_OR_RETURN(const LayerEvidence seen, gather(layer));
        const Stopwatch watch;
        PITH_RETURN_IF_ERROR(pass.add_layer(seen));
        ledger.plan_s += watch.seconds();
    }
    const Stopwatch watch;
    PITH_ASSIGN_OR_RETURN(const std::vector<LayerPlan> plans, pass.finish());
    ledger.plan_s += watch.seconds();
    return plans;
}

Status Session::Impl::apply(std::span<const LayerPlan> plans) {
    if (plans.empty()) { return {}; }
    save_snapshots_before_eviction();
    const Stopwatch watch;
    for (const LayerPlan & layer_plan : plans) {
        ledger.evicted_entries += cache->compact(0, layer_plan.layer, layer_plan.keep);
        evidence.compact(layer_plan.layer, layer_plan.keep);
    }
    ++epoch;
    ++ledger.n_evictions;
    ledger.compact_s += watch.seconds();
    return {};
}

}  // namespace pith
