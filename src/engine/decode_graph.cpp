// decode_graph.cpp - built around the cache's tensors, refilled for every token.
#include "engine/decode_graph.h"

#include "attention/lane_attention.h"
#include "evidence/key_norms.h"
#include "model/layer_graph.h"

namespace pith {
namespace {

// Room for a layer's operations of one token: some forty, and two for each expert.
size_t layer_nodes(const Hparams & hparams) {
    return 80 + 2 * static_cast<size_t>(hparams.n_experts_used);
}

}  // namespace

Status DecodeGraph::build(const RaggedCache & cache, const Structure & structure) {
    built_ = {};
    const Hparams & hp = file_->hparams();
    const Weights & weights = file_->weights();
    const auto n_layers = static_cast<size_t>(hp.n_layers);
    PITH_ASSIGN_OR_RETURN(GraphBuild * build, runner_.begin(64 + n_layers * layer_nodes(hp)));
    ++n_builds_;
    queries_.resize(structure.queries ? n_layers * query_size() : 0);
    moments_.resize(structure.moments ? n_layers : 0);
    key_norms_.resize(structure.key_norms ? n_layers : 0);

    const AttentionFn attention = [&](ggml_context *, ggml_cgraph *, int layer, ggml_tensor * q, ggml_tensor * k,
                                      ggml_tensor * v) {
        if (structure.queries) { build->output(q, queries_.data() + static_cast<size_t>(layer) * query_size()); }
        ColumnSums sums;
        if (structure.running) {
            sums = [this, &cache, seq = structure.seq, layer](int head) {
                return running_sums(cache, *evidence_, seq, layer)(head);
            };
        }
        return build_lane_attention(*build, cache, structure.seq, layer, q, k, v, std::move(sums));
    };
    ggml_tensor * hidden =
        build_embedding(build->ctx(), weights, build->input(GGML_TYPE_I32, 1, 1, static_cast<const int32_t *>(&token_)));
    ggml_tensor * position = build->input(GGML_TYPE_I32, 1, 1, static_cast<const int32_t *>(&position_));
    for (int layer = 0; layer < hp.n_layers; ++layer) {
        const RopeTap tap = [&](ggml_tensor * q, ggml_tensor * k) {
            if (structure.moments) { build_query_moments(*build, q, position_, moments_[static_cast<size_t>(layer)]); }
            if (structure.key_norms) { build_key_norms(*build, k, key_norms_[static_cast<size_t>(layer)]); }
        };
        hidden = build_layer(build->ctx(), build->graph(), hp, weights, layer, hidden, position, attention, nullptr, tap);
    }
    logits_ = build_head(build->ctx(), hp, weights, hidden);
    build->keep(logits_);
    built_ = structure;
    return {};
}

Status DecodeGraph::run(RaggedCache & cache, EvidenceState & evidence, int seq, int32_t token, int32_t position,
                        std::span<float> logits) {
    const int n_layers = file_->hparams().n_layers;
    for (int layer = 0; layer < n_layers; ++layer) { PITH_RETURN_IF_ERROR(cache.reserve(seq, layer, 1)); }
    for (int layer = 0; layer < n_layers; ++layer) { cache.append(seq, layer, std::span(&position, 1)); }

    token_ = token;
    position_ = position;
    evidence_ = &evidence;
    const Structure structure{cache.storage_id(),       seq,
                              evidence.wants_queries(), evidence.wants_running(),
                              evidence.wants_moments(), evidence.wants_key_norms()};
    if (built_ != structure) { PITH_RETURN_IF_ERROR(build(cache, structure)); }
    for (QueryMoments & moments : moments_) { moments.only_sinks = is_sink(position); }
    if (const Status status = runner_.run(); !status.ok()) {
        built_ = {};
        return status;
    }
    ggml_backend_tensor_get(logits_, logits.data(), 0, logits.size_bytes());
    return {};
}

}  // namespace pith
