// layer_profile.h - what the head profiles of one layer, and of the layer before, say about each other (SCORE). Stage: allocate
// → select. Pure C++: no ggml, no I/O.
#pragma once

#include <vector>

namespace pith {

// Distances are means over all pairs of sampled queries, clamped to at least 1e-6.
struct LayerProfile {
    double within = 0;                  // IR: mean over pairs of heads of the layer, own pairs included
    double to_previous = 0;             // μ: mean over pairs (this layer, the layer before); `within` for layer 0
    std::vector<double> head_distance;  // HD [K]: mean over the group of the head's mean distance to all heads of both layers
};

}  // namespace pith
