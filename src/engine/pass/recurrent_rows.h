// recurrent_rows.h - states as inputs and outputs of a graph. Stage: engine.
#pragma once

#include <span>
#include <vector>

#include "device/graph_runner.h"
#include "model/recurrent_graph.h"

namespace pith {

// One sequence's rows of a pass, and its state [n_floats] in the layer: read from `from` when the graph runs, and written to
// `to` once it has run.
struct RecurrentPart {
    int n = 0;
    const float * from = nullptr;
    float * to = nullptr;
};

// Neighbours with as many rows each go through the layer's operations together.
std::vector<RecurrentRows> recurrent_rows(GraphBuild & build, const RecurrentHparams & hparams,
                                          std::span<const RecurrentPart> parts);

}  // namespace pith
