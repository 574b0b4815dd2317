// decode_graph.h - one token through all layers and the head, as one graph that is built once and run for every token. Stage:
// model graph → attention → evidence.
//
// The operations are those of Forward::run_layer() and run_head(), so the logits are the same to the bit. Lanes may grow, be
// evicted, cut back and restored in between: the attention operation looks at them when it runs. The graph is built anew only
// when the cache's tensors were replaced (its reservation grew, or it is another cache), or when other evidence is wanted.
//
// REQUIRES: Pith's own attention (the portable path's graphs hold the lanes' lengths).
// Cost:     a token's inputs and the run; nothing is allocated but by lanes and evidence that grow.   Threads: one at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "cache/ragged_cache.h"
#include "device/graph_runner.h"
#include "evidence/evidence_state.h"
#include "evidence/query_moments.h"
#include "model/model_file.h"

namespace pith {

class DecodeGraph {
public:
    DecodeGraph(std::shared_ptr<const ModelFile> file, ggml_backend_t backend) : file_(std::move(file)), runner_(backend) {}

    // Adds the token's K/V to every lane of the sequence and computes its logits [n_vocab]; adds to the evidence's running
    // sums. Errors: kOutOfMemory, kInternal; the lanes may then hold the new entries already.
    Status run(RaggedCache & cache, EvidenceState & evidence, int seq, int32_t token, int32_t position,
               std::span<float> logits);

    // Of the last run: the queries f32 [H][d] after RoPE, where the evidence wanted queries, and the moments, where it wanted
    // those. Valid until the next run.
    const float * queries(int layer) const { return queries_.data() + static_cast<size_t>(layer) * query_size(); }
    const QueryMoments & moments(int layer) const { return moments_[static_cast<size_t>(layer)]; }
    // [K], of the token's keys before RoPE, where the evidence wanted them.
    std::span<const float> key_norms(int layer) const { return key_norms_[static_cast<size_t>(layer)]; }

    int64_t n_builds() const { return n_builds_; }
    size_t buffer_bytes() const { return runner_.buffer_bytes(); }
    void set_profile(GraphProfile * profile) { runner_.set_profile(profile); }

private:
    // What a built graph depends on.
    struct Structure {
        uint64_t storage = 0;
        int seq = 0;
        bool queries = false;
        bool running = false;
        bool moments = false;
        bool key_norms = false;
        bool operator==(const Structure &) const = default;
    };

    size_t query_size() const {
        return static_cast<size_t>(file_->hparams().n_heads) * static_cast<size_t>(file_->hparams().head_dim);
    }
    Status build(const RaggedCache & cache, const Structure & structure);

    std::shared_ptr<const ModelFile> file_;
    GraphRunner runner_;
    Structure built_;  // storage 0: none
    int64_t n_builds_ = 0;
    EvidenceState * evidence_ = nullptr;  // of the run at hand
    int32_t token_ = 0;
    int32_t position_ = 0;
    ggml_tensor * logits_ = nullptr;
    std::vector<float> queries_;                 // [layer][H][d]
    std::vector<QueryMoments> moments_;          // [layer]
    std::vector<std::vector<float>> key_norms_;  // [layer][K]
};

}  // namespace pith
