// key_norms.h - the norms of keys before RoPE, read while the layer runs. Stage: attention → evidence.
//
// A rotation keeps the norm but for rounding, and a cached key is rounded again to the K type: taken from the cache, the same
// token at two places would have two norms, and chance would choose between them.
#pragma once

#include <vector>

#include "device/graph_runner.h"

namespace pith {

// k [d, K, n] before RoPE. After every run `norms` holds |k|₂, [n][K]; it must live as long as the graph.
void build_key_norms(GraphBuild & build, ggml_tensor * k, std::vector<float> & norms);

}  // namespace pith
