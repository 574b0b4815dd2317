// layer_probe.h - what a session's layers do, shown while they run, and what they leave. Stage: engine.
//
// For benches and inspections: looking changes nothing of what the session computes. The session must outlive the probe, and
// must not be moved while anything is watched.   Threads: one at a time, as the session.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "cache/ragged_cache.h"
#include "core/ragged.h"
#include "core/shape.h"
#include "core/tasks.h"
#include "device/graph_profile.h"
#include "device/graph_runner.h"
#include "engine/pass/layer_tap.h"
#include "engine/sequence/recurrent_states.h"
#include "evidence/evidence_state.h"
#include "evidence/output_matrices.h"
#include "pith/session.h"

namespace pith {

struct LiveSession;

class LayerProbe {
public:
    explicit LayerProbe(Session & session);

    // Shown every layer's newest token from now on; an empty tap ends it.
    void set_tap(LayerTap tap);
    // Shown the queries of each run in a layer that policies govern from now on; an empty function ends it.
    void set_query_observer(QueryObserver observer);
    // Shown what the attention of each of these layers reads from now on; an empty function ends it.
    void set_input_observer(InputObserver observer);
    // Times the graphs of layers and head from now on; nullptr ends it. `profile` must live until then.
    void set_profile(GraphProfile * profile);

    CacheShape shape() const;  // over all layers of the model, those with a window too
    // REQUIRES: something has been prefilled, here and for run_tasks().
    const RaggedCache & cache() const;
    const EvidenceState & evidence() const;
    const RecurrentStates & states() const;
    const std::shared_ptr<OutputMatrices> & output() const;  // of the model
    // Runs graphs beside the session's own, on its threads.
    GraphRunner & runner();
    // The session's threads for an eviction's work; empty: it does its work alone.
    RunTasks run_tasks() const;
    int64_t n_decode_graphs_built() const;

    // What queries pay to each entry of the layer's lanes, 0 to entries behind their own: [H · n], head-major.
    // queries f32 [n][H][d], as an observer is shown them; positions [n], ascending. REQUIRES: n >= 1.
    Result<Ragged<float>> attention_of(int layer, std::span<const float> queries, std::span<const int32_t> positions);

    // attention f32 [H·dv] of one token → [H][D]: what each head's output is after its slice of the output projection.
    Status project_heads(int layer, std::span<const float> attention, std::vector<float> & out);

private:
    LiveSession & session_;
};

}  // namespace pith
