// recurrent_graph.h - what stands in a recurrent layer for attention, as ggml operations. Stage: model.
//
// A token reads its sequence's state and leaves another, so that rows of different sequences come apart: each sequence's are
// one run. What a row gives does not depend on what else is in the pass.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "model/arch/hparams.h"
#include "model/mul_mat.h"
#include "model/weights.h"

struct ggml_cgraph;

namespace pith {

// Consecutive rows of a pass: n_tokens of each of n_seqs sequences.
struct RecurrentRows {
    int64_t n_tokens = 0;
    int64_t n_seqs = 0;
    ggml_tensor * tail = nullptr;    // f32 [n_conv - 1, n_channels, n_seqs], before the rows
    ggml_tensor * memory = nullptr;  // f32 [n_memory, n_seqs]; null where there is none
    // Is given the same behind the rows, contiguous.
    std::function<void(ggml_tensor * tail, ggml_tensor * memory)> keep;
};

// The rows of the pass at hand, which are all of x. Empty: x is one sequence from its beginning, whose state nobody keeps.
using RecurrentFn = std::function<std::vector<RecurrentRows>(ggml_context * ctx, int layer)>;

// x [D, n], the layer's normalised input  →  [m, n], before the output projection (build_recurrent_output()).
ggml_tensor * build_recurrent(ggml_context * ctx, const Hparams & hparams, const LayerWeights & weights, ggml_tensor * x,
                              std::vector<RecurrentRows> rows, MulMatFn mul_mat);

// [m, n]  →  [D, n].
ggml_tensor * build_recurrent_output(ggml_context * ctx, const LayerWeights & weights, ggml_tensor * x, MulMatFn mul_mat);

// Operations that it adds to a graph.
size_t recurrent_nodes(size_t n_parts);

}  // namespace pith
