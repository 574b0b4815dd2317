// decode_graph.h - one token of each of some sequences through all layers and the head, as one graph that is built once and run
// for every token. Stage: model graph → attention → evidence.
//
// The operations are those of Forward::run_layer() and run_head(), so the logits are the same to the bit. Lanes may grow, be
// evicted, cut back and restored in between: the attention operation looks at them when it runs. The graph is built anew only
// when the number of sequences changes, or what their evidence wants; and, where there is one alone, when its cache's tensors
// were replaced (its reservation grew, or it is another cache): its keys and values are written by ggml, straight into them.
// Lanes in buckets are attended to where they lie, whatever the number of sequences: their tensors must stay, too, and which
// of them share a mask. Those of several sequences are brought together first, so that one operation reaches them.
// Over devices also when others have used these in between (device/sent_graphs.h).
//
// REQUIRES: Pith's own attention, or lanes in buckets (the portable path's graphs hold the lanes' lengths).
// Cost:     a token's inputs and the run; nothing is allocated but by lanes and evidence that grow.   Threads: one at a time.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "device/graph_runner.h"
#include "engine/pass/batch_part.h"
#include "engine/pass/pass_layer.h"
#include "model/model_file.h"

namespace pith {

class DecodeGraph {
public:
    DecodeGraph(std::shared_ptr<const ModelFile> file, ggml_backend_t backend, std::span<const ggml_backend_t> devices = {})
        : file_(std::move(file)), runner_(backend, devices) {}

    // Adds each part's token to every lane of its sequence and computes its logits [n_vocab]; adds to the evidence's
    // running sums. tokens, logits [parts]; each part has one row.
    // Errors: kOutOfMemory, kInternal; the lanes may then hold the new entries already.
    Status run(std::span<const BatchPart> parts, std::span<const int32_t> tokens, std::span<const std::span<float>> logits);

    // Of the last run, for part i: the queries f32 [H][d] after RoPE, where its evidence wanted queries, and what else it
    // wanted. Valid until the next run.
    const float * queries(int layer, size_t i) const {
        return queries_.data() + (static_cast<size_t>(layer) * wants_.size() + i) * query_size();
    }
    PartReads & reads(int layer, size_t i) { return reads_[static_cast<size_t>(layer) * wants_.size() + i]; }

    int64_t n_builds() const { return n_builds_; }
    size_t buffer_bytes() const;
    size_t device_bytes(size_t device) const { return runner_.device_bytes(device); }
    void set_profile(GraphProfile * profile) { runner_.set_profile(profile); }
    void set_cancel(const std::atomic<bool> * cancel) { runner_.set_cancel(cancel); }

private:
    // What a part's evidence wants of a graph.
    struct Wants {
        bool queries = false;
        bool running = false;
        bool moments = false;
        bool key_norms = false;
        const Gate * ranking = nullptr;
        bool operator==(const Wants &) const = default;
    };
    // Which tensors a part's lanes lie in.
    struct Storage {
        uint64_t id = 0;
        uint64_t n_moves = 0;
        bool operator==(const Storage &) const = default;
    };
    static Wants wants_of(const BatchPart & part);
    static Storage storage_of(const BatchPart & part) { return {part.cache->storage_id(), part.cache->n_moves()}; }
    bool fits(std::span<const BatchPart> parts) const;

    size_t query_size() const {
        return static_cast<size_t>(file_->hparams().n_heads) * static_cast<size_t>(file_->hparams().head_dim);
    }
    // Room for the tokens; of several sequences whose lanes are on devices, side by side there.
    Status reserve(std::span<const BatchPart> parts);
    Status bring_together(std::span<const BatchPart> parts);
    Status build(std::span<const BatchPart> parts);
    void read_states(std::span<const BatchPart> parts);
    void write_states(std::span<const BatchPart> parts);

    std::shared_ptr<const ModelFile> file_;
    GraphRunner runner_;
    // What the built graph depends on.
    std::vector<Wants> wants_;        // [part]; empty: there is none
    std::vector<Storage> storages_;   // [part]
    std::vector<bool> shared_masks_;  // of every bucket, in order: bucket_attention.h
    std::vector<Storage> apart_;      // [part] that found no memory to lie side by side, and have not moved since
    int seq_ = 0;
    int64_t n_builds_ = 0;
    std::shared_ptr<LaneBatch> batch_;  // of the run at hand
    std::vector<int32_t> tokens_;
    std::vector<int32_t> positions_;
    std::span<const std::span<float>> logits_;  // where those of the run at hand go
    std::vector<float> queries_;                // [layer][part][H][d], where any wants them
    std::vector<PartReads> reads_;              // [layer][part]
    // [recurrent layer][part][n_floats], before and behind the tokens
    std::vector<float> states_;
    std::vector<float> next_states_;
};

}  // namespace pith
