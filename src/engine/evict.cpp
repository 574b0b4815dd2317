// evict.cpp - one eviction, all its stages in order. Stage: engine.
#include <functional>

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
    return apply(plans);
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
