// graph_profile.h - where the time of graphs goes: a graph cut into pieces of one kind, each run and timed by itself. Stage:
// device.
//
// ggml's CPU back end tells nobody when a node is done, and graphs that nobody profiles must not pay for those that are. So a
// profiled graph is run piece by piece: neighbouring nodes of one kind make a graph of their own over the same tensors. Every
// piece waits for all threads once more, which is part of the times; `pith bench --profile` shows by how much the whole grows.
// Cost: nothing where no profile is wanted.   Threads: one at a time.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ggml-backend.h"
#include "ggml.h"

namespace pith {

enum class GraphPart : uint8_t {
    kWeights,    // products with weights, and reading embeddings
    kAttention,  // writing K and V, attending
    kEvidence,   // what is captured for scorers inside the graph
    kRest,       // norms, rotation, activations, sums
};

// Of a node by its operation; Pith's own operations carry their part's name (see name_of()).
GraphPart part_of(const ggml_tensor * node);
const char * name_of(GraphPart part);

struct GraphProfile {
    double weights_s = 0;
    double attention_s = 0;
    double evidence_s = 0;
    double rest_s = 0;
    double build_s = 0;      // building and planning graphs, filling inputs, reading outputs
    double profiling_s = 0;  // cutting: not part of a run that nobody profiles

    double & of(GraphPart part);
};

// The pieces of one graph. Valid as long as the graph.
class GraphPieces {
public:
    GraphPieces() = default;
    ~GraphPieces();
    GraphPieces(const GraphPieces &) = delete;
    GraphPieces & operator=(const GraphPieces &) = delete;

    bool empty() const { return pieces_.empty(); }
    void clear();
    // REQUIRES: empty(). false: no memory.
    bool cut(ggml_cgraph * graph);
    ggml_status run(ggml_backend_t backend, GraphProfile & profile) const;

private:
    struct Piece {
        GraphPart part;
        ggml_cgraph * graph;
    };
    ggml_context * ctx_ = nullptr;
    std::vector<Piece> pieces_;
};

}  // namespace pith
