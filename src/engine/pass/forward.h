// forward.h - the unit of work of every schedule: one layer over a run of new tokens. Stage: model graph → attention →
// evidence.
//
// A schedule decides the order (layer by layer, or chunk by chunk); the arithmetic of a (layer, tokens) unit is the same in
// all of them, so that schedules agree to the bit while nothing is evicted.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "cache/ragged_cache.h"
#include "device/graph_runner.h"
#include "engine/pass/batch_part.h"
#include "engine/pass/decode_graph.h"
#include "engine/pass/layer_tap.h"
#include "engine/pass/states_there.h"
#include "evidence/evidence_state.h"
#include "model/model_file.h"

namespace pith {

// Errors: kInternal: one of them is not a number, or infinite. No token can be chosen by them.
Status check_logits(std::span<const float> logits);

class Forward {
public:
    // devices: back ends of those that the model's layers are placed on. All must outlive it.
    Forward(std::shared_ptr<const ModelFile> file, ggml_backend_t backend, std::vector<ggml_backend_t> devices = {});

    // Runs layer `layer` over the parts' tokens, one part's behind the other's: adds their K/V to their lanes, attends, and
    // tells their evidence. The weights are read once for all of them.
    //   tokens [n]     read by layer 0, and by all that are told of them (Hparams::n_embd_per_layer)
    //   hidden [n][D]  read by the other layers; overwritten with the result
    //   kept_rows      those that go on from the last layer, ascending: they are then at the front of hidden; empty: all
    //   there          where they are read and written in place of hidden; REQUIRES: no tap
    // Errors: kOutOfMemory, kInternal; the lanes may then hold the new entries already.
    Status run_layer(std::span<const BatchPart> parts, int layer, std::span<const int32_t> tokens, std::span<float> hidden,
                     std::span<const int32_t> kept_rows = {}, const RowsThere & there = {});

    // hidden [n][D] → logits [n][n_vocab].
    Status run_head(std::span<const float> hidden, int n, std::span<float> logits);

    // One token of each part through all layers and the head: what run_layer() and run_head() do, to the bit, by a graph that
    // is kept as long as as many sequences want the same of it (decode_graph.h). tokens [n]; logits [n] of [n_vocab].
    // Parts that run ahead leave their lanes as they were, and all else in BatchPart::ahead.
    // of_parts [n]: what each part's logits came to (check_logits()), the run is then good for the others; empty: one fails
    // all. Errors: as run_layer(), and check_logits()'s.
    Status run_tokens(std::span<const BatchPart> parts, std::span<const int32_t> tokens,
                      std::span<const std::span<float>> logits, std::span<Status> of_parts = {});
    // Whether run_tokens() may be used: Pith's own attention serves the cache, or its lanes lie in buckets and nobody sums what
    // queries pay to them; and nobody looks at single layers.
    bool can_run_tokens(const RaggedCache & cache, const EvidenceState & evidence) const;

    // Shown the queries of each run; an empty function ends it.
    void set_query_observer(QueryObserver observer) { query_observer_ = std::move(observer); }
    // Shown what the attention of governed layers reads in each run; an empty function ends it.
    void set_input_observer(InputObserver observer) { input_observer_ = std::move(observer); }

    // Shown the newest token of every layer with attention from now on; an empty tap ends it.
    void set_tap(LayerTap tap) { tap_ = std::move(tap); }
    bool is_tapped() const { return static_cast<bool>(tap_); }
    // Whether anybody of these looks on.
    bool is_watched() const { return tap_ || query_observer_ || input_observer_; }
    // Called in front of what of a layer this machine's threads compute (GraphRunner::set_before_here()), as long as it is set.
    void set_before_here(const std::function<void()> & wait);
    // attention f32 [H·dv] of one token → [H][D]: what each head's output is after its slice of the output projection. Their
    // sum, plus the bias where the layer has one, is the attention's output. Cost: one product of H columns.
    Status project_heads(int layer, std::span<const float> attention, std::vector<float> & out);

    const Hparams & hparams() const { return file_->hparams(); }
    GraphRunner & observer() { return observe_runner_; }
    // Another, whose graphs may run on a device while the observer's run here.
    GraphRunner & observer_there() { return there_runner_; }
    // Times the graphs of layers and head from now on, the observer's not; nullptr ends it. `profile` must live until then.
    void set_profile(GraphProfile * profile);
    // From now on what runs ends with kCancelled once this is set (graph_runner.h); nullptr: nothing does.
    void set_cancel(const std::atomic<bool> * cancel);
    const std::atomic<bool> * cancel() const { return observe_runner_.cancel(); }
    int64_t n_decode_graphs_built() const;
    size_t activation_bytes() const;
    // What graphs hold of a device's memory, in the constructor's order.
    size_t device_bytes(size_t device) const;
    // Gives back what the graphs of layers, head and observer hold there: a prompt's, which are larger than a token's.
    void release_devices();
    double evidence_s() const { return evidence_s_; }  // spent inside run_layer on reading queries out and remembering them

private:
    DecodeGraph & decode_graph_for(std::span<const BatchPart> parts);
    void put_down(const BatchPart & part, DecodeGraph & graph, size_t i);
    bool adds_running(const BatchPart & part, int layer) const;
    bool observes(const BatchPart & part, int layer) const;
    Status observe(const BatchPart & part, int layer, const ggml_tensor * queries, int first_row);

    std::shared_ptr<const ModelFile> file_;
    ggml_backend_t backend_;
    std::vector<ggml_backend_t> devices_;
    GraphRunner layer_runner_;
    GraphRunner head_runner_;
    GraphRunner observe_runner_;
    GraphRunner there_runner_;
    template <class Self>  // const or not
    static auto all_runners(Self & self) {
        return std::array{&self.layer_runner_, &self.head_runner_, &self.observe_runner_, &self.there_runner_};
    }
    // The first of tokens, the others of passes in which rows run ahead, whose numbers change from pass to pass. Null: none
    // yet.
    static constexpr size_t kAheadGraphs = 8;
    std::array<std::unique_ptr<DecodeGraph>, 1 + kAheadGraphs> decode_graphs_;
    GraphProfile * profile_ = nullptr;
    std::vector<float> queries_;  // [n][H][d] of the layer just run
    QueryObserver query_observer_;
    InputObserver input_observer_;
    std::vector<float> inputs_;  // [n][D] of the layer just run, where somebody observes them
    LayerTap tap_;
    std::vector<float> tapped_;  // [H·dv] of the newest token of the layer just run
    double evidence_s_ = 0;
};

// As long as it lives what a Forward runs is cancelled by this flag, and by no other; then as before.
class CancelScope {
public:
    CancelScope(Forward & forward, const std::atomic<bool> * cancel) : forward_(forward), before_(forward.cancel()) {
        forward_.set_cancel(cancel);
    }
    ~CancelScope() { forward_.set_cancel(before_); }
    CancelScope(const CancelScope &) = delete;
    CancelScope & operator=(const CancelScope &) = delete;

private:
    Forward & forward_;
    const std::atomic<bool> * before_;
};

}  // namespace pith
