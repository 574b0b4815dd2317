// layer_probe.cpp - hands on what is inside a session. Stage: engine.
#include "engine/layer_probe.h"

#include <utility>

#include "engine/session_impl.h"
#include "evidence/observe.h"

namespace pith {

LayerProbe::LayerProbe(Session & session) : impl_(Session::Impl::of(session)) {}

void LayerProbe::set_tap(LayerTap tap) {
    impl_.forward->set_tap(std::move(tap));
}
void LayerProbe::set_query_observer(QueryObserver observer) {
    impl_.forward->set_query_observer(std::move(observer));
}
void LayerProbe::set_input_observer(InputObserver observer) {
    impl_.forward->set_input_observer(std::move(observer));
}
void LayerProbe::set_profile(GraphProfile * profile) {
    impl_.forward->set_profile(profile);
}

CacheShape LayerProbe::shape() const {
    return impl_.layout.shape_of_model();
}
const RaggedCache & LayerProbe::cache() const {
    return *impl_.seq.cache;
}
const EvidenceState & LayerProbe::evidence() const {
    return impl_.seq.evidence;
}
const RecurrentStates & LayerProbe::states() const {
    return impl_.seq.states;
}
const std::shared_ptr<OutputMatrices> & LayerProbe::output() const {
    return impl_.output;
}
GraphRunner & LayerProbe::runner() {
    return impl_.forward->observer();
}
RunTasks LayerProbe::run_tasks() const {
    return impl_.target().run_tasks;
}
int64_t LayerProbe::n_decode_graphs_built() const {
    return impl_.forward->n_decode_graphs_built();
}

Result<Ragged<float>> LayerProbe::attention_of(int layer, std::span<const float> queries, std::span<const int32_t> positions) {
    Observed observed;
    PITH_RETURN_IF_ERROR(observe_queries(runner(), cache(), 0, layer, queries.data(), positions, {.rows = true}, observed));
    return std::move(observed.rows);
}

Status LayerProbe::project_heads(int layer, std::span<const float> attention, std::vector<float> & out) {
    return impl_.forward->project_heads(layer, attention, out);
}

}  // namespace pith
