// evidence_state.h - evidence that outlives a graph: the newest queries and the running column sums. Stage: attention →
// evidence.
//
// It is carried along with the lanes: it grows when they grow, is compacted by the same plans, and cut back with them.
// Copyable (a snapshot holds a copy). Threads: one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "attention/graph_runner.h"
#include "cache/ragged_cache.h"
#include "core/evidence.h"

namespace pith {

class EvidenceState {
public:
    EvidenceState() = default;
    EvidenceState(const CacheShape & shape, const EvidenceNeeds & needs);

    const EvidenceNeeds & needs() const { return needs_; }
    bool wants_queries() const { return n_kept_queries_ > 0; }                             // remember() must see every query
    bool wants_running() const { return needs_.running_sum && needs_.running_last == 0; }  // add_running() too
    int n_kept_queries() const { return n_kept_queries_; }

    // queries f32 [n][H][d], positions first_position, first_position + 1, …
    void remember(int layer, const float * queries, int n, int32_t first_position);

    // Adds what these queries, the newest n of the lanes, pay to all entries of the layer.
    Status add_running(GraphRunner & runner, const RaggedCache & cache, int seq, int layer, const float * queries, int n,
                       int32_t first_position);

    // All that needs() asks for, of the lanes as they stand.
    Result<LayerEvidence> gather(GraphRunner & runner, const RaggedCache & cache, int seq, int layer, int64_t n_seen) const;

    void compact(int layer, const Ragged<int32_t> & keep);  // keep: [K]
    size_t size_bytes() const;

private:
    struct Layer {
        std::vector<float> queries;               // [kept][H][d], oldest first
        std::vector<int32_t> query_positions;     // [kept]
        std::vector<std::vector<float>> running;  // [H][lane length]
    };
    CacheShape shape_;
    EvidenceNeeds needs_;
    int n_kept_queries_ = 0;
    std::vector<Layer> layers_;
};

}  // namespace pith
