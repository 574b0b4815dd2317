// gate_runner.h - what a layer's gate says of the tokens of a prompt. Stage: model graph → gate.
//
// A gate that is not causal is asked about a whole prompt at once. One that works in chunks (causal or linear) may be asked
// chunk after chunk, and sees in each what came before it: with these chunks or with others, the answers differ by rounding
// alone. Queries go in blocks: beside the hidden states, what is held at once is the keys and values of one layer's gate,
// 2·d·h floats a token, and a block's activations.
// It runs on the CPU: of a layer on a device its norm alone is needed here, and copied from there once.
// Cost: the gate's projections, and for an attention O(tokens² · d · h).   Errors: kOutOfMemory, kInternal, kIo (a device
// failed). Threads: one at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "attention/gate_attention.h"
#include "device/graph_runner.h"
#include "engine/sequence/gate_state.h"
#include "gate/gate_file.h"
#include "model/model_file.h"

namespace pith {

// The tokens of one run, in front of some layer.
struct GateInput {
    std::span<const int32_t> tokens;  // [n] read in front of layer 0
    std::span<const float> hidden;    // [n][D] read in front of the others
    int n = 0;
};

class GateRunner {
public:
    GateRunner(std::shared_ptr<const ModelFile> file, std::shared_ptr<const Gate> gate, ggml_backend_t backend)
        : file_(std::move(file)), gate_(std::move(gate)), runner_(backend) {}

    // Probabilities [n][K] of the gate of `layer`; `in` stands in front of layer config().input_layer(layer).
    // memory: of this layer, for a causal gate: read, and added to.
    Status run(int layer, const GateInput & in, GateMemory & memory, std::vector<float> & probabilities);

    const GateConfig & config() const { return gate_->config(); }
    const Gate & gate() const { return *gate_; }
    size_t size_bytes() const;

    // Gives back what a run's keys and values took.
    void release();

    // Shown the attention of this layer's gate: rows of probabilities [query][n keys], head by head, block by block.
    struct AttentionRows {
        int head = 0;
        int first_query = 0;
        int n_queries = 0;
        int n_keys = 0;
        std::span<const float> rows;
    };
    void watch_attention(int layer, std::function<void(const AttentionRows &)> visit) {
        watched_layer_ = layer;
        visit_ = std::move(visit);
    }
    GraphRunner & runner() { return runner_; }

private:
    Status read_norm(int layer);
    ggml_tensor * build_input(GraphBuild & build, int layer, const GateInput & in, int first, int n) const;
    Status add_keys(int layer, const GateInput & in, GateMemory & memory, int n_before);
    Status ask_block(int layer, const GateInput & in, int n_before, int first, int n, float * logits);

    std::shared_ptr<const ModelFile> file_;
    std::shared_ptr<const Gate> gate_;
    GraphRunner runner_;
    std::vector<float> keys_;  // [tokens before and of this run][h][d]
    std::vector<float> values_;
    std::map<int, std::vector<float>> norms_;  // of layers on devices [D]
    int watched_layer_ = -1;
    std::function<void(const AttentionRows &)> visit_;
};

}  // namespace pith
