// ranking.cpp - one thin product a layer; probabilities are made where they are told.
#include "engine/pass/ranking.h"

#include "gate/gate_graph.h"

namespace pith {

ggml_tensor * view_rows(ggml_context * ctx, ggml_tensor * x, int first, int n) {
    return ggml_view_2d(ctx, x, x->ne[0], n, x->nb[1], static_cast<size_t>(first) * x->nb[1]);
}

void build_ranking(GraphBuild & build, const BatchPart & part, int layer, ggml_tensor * x, std::vector<float> & logits) {
    if (part.ranking == nullptr) { return; }
    const GateLayerWeights & weights = part.ranking->weights().layers[static_cast<size_t>(layer)];
    if (weights.out == nullptr) { return; }
    ggml_tensor * said = build_gate(build.ctx(), part.ranking->config(), weights, x, {}, mul_mat_of(build));
    logits.resize(static_cast<size_t>(ggml_nelements(said)));
    build.output(said, logits.data());
}

void tell_ranking(const BatchPart & part, int layer, std::span<float> logits) {
    if (part.ranking == nullptr || logits.empty()) { return; }
    for (float & one : logits) { one = gate_probability(one, part.ranking->config()); }
    part.evidence->add_retention(*part.cache, part.seq, layer, logits);
}

}  // namespace pith
