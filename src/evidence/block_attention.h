// block_attention.h - what the tokens of a block pay each other, those that come later included. Stage: attention → evidence.
//
//   sums[g][j] = Σ over the queries i of the block of softmax over the block's keys of q_i·k_j
// Queries and keys are rotated as the model has them; products are not scaled and not capped, and no sink takes part, as in the
// authors' code. The block is a second, small attention beside the model's own: no position counts for more because more
// queries could see it. A block of fewer keys than queries (an eviction took some) sums over what is left.
// In f32 by ggml's operations, whatever the K type.   Cost: O(n² · H · d), scratch of n² · group floats a lane.
// Paper: Compactor: Calibrated Query-Agnostic KV Cache Compression with Approximate Leverage Scores.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cache/ragged_cache.h"
#include "core/ragged.h"
#include "device/graph_runner.h"

namespace pith {

// queries f32 [n][H][d] after RoPE, of positions first_position, …, which are the block's. Overwrites `out` [H]: of the entries
// that the lanes hold of these positions.
Status block_attention(GraphRunner & runner, const RaggedCache & cache, int seq, int layer, const float * queries, int n,
                       int32_t first_position, Ragged<float> & out);

// Of an entry that no block was told of: tokens in front of all blocks count as 1, of others nothing is known (not a number).
float sum_without_block(int32_t position);

// What is known of a lane's entries before position `begin`, sum_without_block() behind that.
std::vector<float> closed_sums(std::span<const float> known, std::span<const int32_t> positions, int32_t begin);

}  // namespace pith
