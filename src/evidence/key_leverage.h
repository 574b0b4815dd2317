// key_leverage.h - how far a key stands apart from what the lane's other keys say together. Stage: attention → evidence.
//
// x_j = (k_j - mean of the lane's keys)·Φ, k before RoPE, and out[j] = x_jᵀ(Σ x xᵀ + εI)⁻¹x_j: the statistical leverage of a
// row of the matrix of keys, 1 where nothing else points that way. It does not change when all keys are stretched or turned. Φ
// [d][48] is a fixed Gaussian sketch of variance 1/48; heads of up to 48 dimensions are not sketched. Keys are read from the
// cache and turned back by their original positions: nothing is stored beside it. The first kFirstTokens positions are left
// out, and count as 1. Paper:   Compactor: Calibrated Query-Agnostic KV Cache Compression with Approximate Leverage Scores.
// Differs: one sketch for all lanes, the same in every run; over the entries that the lane holds now.
// Cost: O(entries · 48 · d), scratch of one lane's sketched keys.   Errors: those of the runner.
#pragma once

#include <vector>

#include "cache/ragged_cache.h"
#include "core/ragged.h"
#include "device/graph_runner.h"
#include "model/model_file.h"

namespace pith {

inline constexpr double kLeverageRidge = 1e-2;  // ε
inline constexpr int kSketchColumns = 48;

// Φ, column by column: [48][d]. Empty where the head is not sketched.
std::vector<float> key_sketch(int head_dim);

// The leverage of every entry of (seq, layer): [K].
Status key_leverages(GraphRunner & runner, const ModelFile & model, const RaggedCache & cache, int seq, int layer,
                     Ragged<float> & out);

}  // namespace pith
