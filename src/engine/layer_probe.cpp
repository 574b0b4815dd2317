// layer_probe.cpp - hands on what is inside a session. Stage: engine.
#include "engine/layer_probe.h"

#include <utility>

#include "engine/evict/evict.h"
#include "evidence/observe.h"

namespace pith {

LayerProbe::LayerProbe(Session & session) : session_(live_session(session)) {}

void LayerProbe::set_tap(LayerTap tap) {
    session_.forward->set_tap(std::move(tap));
}
void LayerProbe::set_query_observer(QueryObserver observer) {
    session_.forward->set_query_observer(std::move(observer));
}
void LayerProbe::set_input_observer(InputObserver observer) {
    session_.forward->set_input_observer(std::move(observer));
}
void LayerProbe::set_profile(GraphProfile * profile) {
    session_.forward->set_profile(profile);
}

CacheShape LayerProbe::shape() const {
    return session_.layout.shape_of_model();
}
const RaggedCache & LayerProbe::cache() const {
    return *session_.seq.cache;
}
const EvidenceState & LayerProbe::evidence() const {
    return session_.seq.evidence;
}
const RecurrentStates & LayerProbe::states() const {
    return session_.seq.states;
}
const std::shared_ptr<OutputMatrices> & LayerProbe::output() const {
    return session_.output;
}
GraphRunner & LayerProbe::runner() {
    return session_.forward->observer();
}
RunTasks LayerProbe::run_tasks() const {
    return eviction_target(session_).run_tasks;
}
int64_t LayerProbe::n_decode_graphs_built() const {
    return session_.forward->n_decode_graphs_built();
}

Result<Ragged<float>> LayerProbe::attention_of(int layer, std::span<const float> queries, std::span<const int32_t> positions) {
    Observed observed;
    PITH_RETURN_IF_ERROR(observe_queries(runner(), cache(), 0, layer, queries.data(), positions, {.rows = true}, observed));
    return std::move(observed.rows);
}

Status LayerProbe::project_heads(int layer, std::span<const float> attention, std::vector<float> & out) {
    return session_.forward->project_heads(layer, attention, out);
}

}  // namespace pith
