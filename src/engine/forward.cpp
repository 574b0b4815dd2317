// forward.cpp - one layer, and the output head.
#include "engine/forward.h"

#include <numeric>

#include "attention/lane_attention.h"
#include "core/stopwatch.h"
#include "model/layer_graph.h"

namespace pith {
namespace {

// Room for a layer's operations: the fixed part, experts, and up to a dozen for every lane that attends by itself.
size_t layer_nodes(const Hparams & hparams) {
    return 256 + 16 * static_cast<size_t>(hparams.n_kv_heads);
}

}  // namespace

Forward::Forward(std::shared_ptr<const ModelFile> file, ggml_backend_t backend)
    : file_(std::move(file)), layer_runner_(backend), head_runner_(backend), observe_runner_(backend) {}

Status Forward::run_layer(RaggedCache & cache, EvidenceState & evidence, int seq, int layer, std::span<const int32_t> tokens,
                          std::span<float> hidden, int n, int32_t first_position, int n_out) {
    const Hparams & hp = hparams();
    PITH_RETURN_IF_ERROR(cache.reserve(seq, layer, n));
    std::vector<int32_t> positions(static_cast<size_t>(n));
    std::iota(positions.begin(), positions.end(), first_position);
    cache.append(seq, layer, positions);

    PITH_ASSIGN_OR_RETURN(GraphBuild * build, layer_runner_.begin(layer_nodes(hp)));
    const bool observes = evidence.wants_queries() || evidence.wants_running();
    if (observes) { queries_.resize(static_cast<size_t>(n) * static_cast<size_t>(hp.n_heads * hp.head_dim)); }
    const AttentionFn attention = [&](ggml_context *, ggml_cgraph *, int l, ggml_tensor * q, ggml_tensor * k, ggml_tensor * v) {
        if (observes) { build->output(q, queries_.data()); }
        return build_lane_attention(*build, cache, seq, l, q, k, v);
    };
    ggml_tensor * in = layer == 0
                           ? build_embedding(build->ctx(), file_->weights(), build->input(GGML_TYPE_I32, n, 1, tokens.data()))
                           : build->input(GGML_TYPE_F32, hp.n_embd, n, static_cast<const float *>(hidden.data()));
    std::vector<int32_t> rows(static_cast<size_t>(n_out));
    std::iota(rows.begin(), rows.end(), n - n_out);
    ggml_tensor * keep = n_out < n ? build->input(GGML_TYPE_I32, n_out, 1, static_cast<const int32_t *>(rows.data())) : nullptr;
    ggml_tensor * position_input = build->input(GGML_TYPE_I32, n, 1, static_cast<const int32_t *>(positions.data()));
    build->output(build_layer(build->ctx(), build->graph(), hp, file_->weights(), layer, in, position_input, attention, keep),
                  hidden.data());
    PITH_RETURN_IF_ERROR(layer_runner_.run());

    if (observes) {
        const Stopwatch watch;
        if (evidence.wants_queries()) { evidence.remember(layer, queries_.data(), n, first_position); }
        if (evidence.wants_running()) {
            PITH_RETURN_IF_ERROR(evidence.add_running(observe_runner_, cache, seq, layer, queries_.data(), n, first_position));
        }
        evidence_s_ += watch.seconds();
    }
    return {};
}

Status Forward::run_head(std::span<const float> hidden, int n, std::span<float> logits) {
    PITH_ASSIGN_OR_RETURN(GraphBuild * build, head_runner_.begin(64));
    ggml_tensor * in = build->input(GGML_TYPE_F32, hparams().n_embd, n, hidden.data());
    build->output(build_head(build->ctx(), hparams(), file_->weights(), in), logits.data());
    return head_runner_.run();
}

size_t Forward::activation_bytes() const {
    return layer_runner_.buffer_bytes() + head_runner_.buffer_bytes() + observe_runner_.buffer_bytes() +
           queries_.capacity() * sizeof(float);
}

}  // namespace pith
