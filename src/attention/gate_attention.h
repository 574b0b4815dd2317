// gate_attention.h - the small attention inside a gate, for a block of its queries. Stage: gate.
// On the CPU by Pith's kernel, which reads keys and values where they lie; elsewhere by ggml's flash attention.
// Memory: nothing of size queries × keys, but for the mask of a causal gate outside of the kernel.
#pragma once

#include "device/graph_runner.h"
#include "gate/gate_config.h"

namespace pith {

// Keys and values of the tokens that the gate has seen, f32 [n][h][d] in host memory that lives until the run.
struct GateKeys {
    const float * k = nullptr;
    const float * v = nullptr;
    int n = 0;
};

// q f32 [d, h, m]  →  [d·h, m]. Causal: the queries are those of the newest m tokens, and see no later ones.
ggml_tensor * build_gate_attention(GraphBuild & build, const GateConfig & config, ggml_tensor * q, const GateKeys & keys);

// The same attention's probabilities, for whoever wants to see them: f32 [n, m, h].
ggml_tensor * build_gate_probabilities(GraphBuild & build, const GateConfig & config, ggml_tensor * q, const GateKeys & keys);

}  // namespace pith
