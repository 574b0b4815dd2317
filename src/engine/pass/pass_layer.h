// pass_layer.h - the operations of a layer over the rows of a pass, and what is read of them for each part's evidence: what
// Forward builds layer by layer, and DecodeGraph of all layers at once. Stage: model graph → attention → evidence.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "attention/lane_rotation.h"
#include "device/graph_runner.h"
#include "engine/pass/batch_part.h"
#include "engine/pass/recurrent_rows.h"
#include "evidence/query_moments.h"
#include "model/layer_graph.h"
#include "model/model_file.h"

namespace pith {

// Of a part's rows in one layer that policies govern, what its evidence wants beside the queries.
struct PartReads {
    QueryMoments moments;          // of the queries
    std::vector<float> key_norms;  // [n][K], before RoPE
    std::vector<float> ranking;    // logits [n][K] of a gate that ranks

    size_t size_bytes() const { return moments.size_bytes() + (key_norms.capacity() + ranking.capacity()) * sizeof(float); }
};
// Once the graph has run. The lanes hold the rows already; logits become probabilities.
// Throws std::bad_alloc, unless EvidenceState::prepare_token() came before.
void tell_reads(const BatchPart & part, int layer, PartReads & reads);

// While a graph is built.
class PassLayer {
public:
    // Who looks at the layers' tensors; empty: nobody.
    struct Watch {
        std::function<void(int layer, ggml_tensor * x)> inputs;   // [D, n] of the attention of governed layers, normalised
        std::function<void(int layer, ggml_tensor * q)> queries;  // of governed layers, as they meet the keys in the lanes
        std::function<void(ggml_tensor * attended)> outputs;      // of all heads, before the output projection
    };
    // The states of a recurrent layer's parts, before and behind the rows.
    using StatesOf = std::function<std::vector<RecurrentPart>(int layer)>;

    // All must live until the graph is built; the batch until it has run for the last time. The lanes hold the rows' positions.
    PassLayer(GraphBuild & build, const ModelFile & file, std::span<const BatchPart> parts,
              std::shared_ptr<const LaneBatch> batch, Watch watch, StatesOf states_of);

    // in [D, n], positions i32 [n], tokens i32 [n] or null → [D, n], or the rows i32 [m] of `keep` alone.
    // reads [part]: filled whenever the graph runs; they must live as long.
    ggml_tensor * add(int layer, ggml_tensor * in, ggml_tensor * positions, ggml_tensor * tokens, ggml_tensor * keep,
                      std::span<PartReads> reads);

private:
    ggml_tensor * attend(int layer, ggml_tensor * q, ggml_tensor * k, ggml_tensor * v);

    GraphBuild & build_;
    const ModelFile & file_;
    std::span<const BatchPart> parts_;
    std::shared_ptr<const LaneBatch> batch_;
    Watch watch_;
    StatesOf states_of_;
    LaneRotation rotation_;
};

}  // namespace pith
