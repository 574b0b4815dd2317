// forward.h - the unit of work of every schedule: one layer over a run of new tokens. Stage: model graph → attention →
// evidence.
//
// A schedule decides the order (layer by layer, or chunk by chunk); the arithmetic of a (layer, tokens) unit is the same in
// all of them, so that schedules agree to the bit while nothing is evicted.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "cache/ragged_cache.h"
#include "device/graph_runner.h"
#include "engine/decode_graph.h"
#include "engine/tap.h"
#include "evidence/evidence_state.h"
#include "model/model_file.h"

namespace pith {

// Errors: kInternal: one of them is not a number, or infinite. No token can be chosen by them.
Status check_logits(std::span<const float> logits);

class Forward {
public:
    Forward(std::shared_ptr<const ModelFile> file, ggml_backend_t backend);

    // Runs layer `layer` over n tokens at positions first_position…: adds their K/V to the lanes, attends, and tells
    // `evidence`.
    //   tokens [n]     read by layer 0 only
    //   hidden [n][D]  read by the other layers; overwritten with the result
    //   n_out          rows that go on from the last layer: the newest n_out of hidden are then at its front (n elsewhere)
    //   n_to_come      tokens that the layer sees after these before `evidence` is asked for anything
    //   hidden_keys    of this layer, those of the new tokens included; nullptr: none
    // Errors: kOutOfMemory, kInternal; the lanes may then hold the new entries already.
    Status run_layer(RaggedCache & cache, EvidenceState & evidence, int seq, int layer, std::span<const int32_t> tokens,
                     std::span<float> hidden, int n, int32_t first_position, int n_out, int n_to_come = 0,
                     const HiddenKeys * hidden_keys = nullptr);

    // hidden [n][D] → logits [n][n_vocab].
    Status run_head(std::span<const float> hidden, int n, std::span<float> logits);

    // One token of a sequence through all layers and the head: what run_layer() and run_head() do, to the bit, by a graph kept
    // from token to token (decode_graph.h).   Errors: as run_layer().
    Status run_token(RaggedCache & cache, EvidenceState & evidence, int seq, int32_t token, int32_t position,
                     std::span<float> logits);
    // Whether run_token() may be used: Pith's own attention serves the cache, and nobody looks at single layers.
    bool can_run_token(const RaggedCache & cache) const;

    // Shown the queries of each run; an empty function ends it.
    void set_query_observer(QueryObserver observer) { query_observer_ = std::move(observer); }

    // Shown every layer's newest token from now on; an empty tap ends it.
    void set_tap(LayerTap tap) { tap_ = std::move(tap); }
    // attention f32 [H·dv] of one token → [H][D]: what each head's output is after its slice of the output projection. Their
    // sum, plus the bias where the layer has one, is the attention's output. Cost: one product of H columns.
    Status project_heads(int layer, std::span<const float> attention, std::vector<float> & out);

    const Hparams & hparams() const { return file_->hparams(); }
    GraphRunner & observer() { return observe_runner_; }
    // Times the graphs of layers and head from now on, the observer's not; nullptr ends it. `profile` must live until then.
    void set_profile(GraphProfile * profile);
    int64_t n_decode_graphs_built() const;
    size_t activation_bytes() const;
    double evidence_s() const { return evidence_s_; }  // spent inside run_layer on reading queries out and remembering them

private:
    Status observe(const RaggedCache & cache, EvidenceState & evidence, int seq, int layer, const ggml_tensor * queries, int n,
                   int32_t first_position, int n_to_come, bool adds_running, const HiddenKeys * hidden_keys);

    std::shared_ptr<const ModelFile> file_;
    ggml_backend_t backend_;
    GraphRunner layer_runner_;
    GraphRunner head_runner_;
    GraphRunner observe_runner_;
    std::vector<std::unique_ptr<DecodeGraph>> decode_graphs_;  // [seq]
    GraphProfile * profile_ = nullptr;
    std::vector<float> queries_;  // [n][H][d] of the layer just run
    QueryObserver query_observer_;
    LayerTap tap_;
    std::vector<float> tapped_;  // [H·dv] of the newest token of the layer just run
    double evidence_s_ = 0;
};

}  // namespace pith
