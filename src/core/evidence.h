// evidence.h - what attention revealed about the entries of one layer. Stage: evidence → score.
// Pure C++: no ggml, no I/O.
//
// Heads: query head g of n_heads = n_kv_heads · n_group belongs to KV head g / n_group.
// Rows called [H] have one row per query head, as long as the lane of its KV head; rows called [K] one per KV head.
// A[g,i,j] is the softmax attention probability of query i over all entries it may see, f32, scaled by 1/sqrt(head_dim).
#pragma once

#include <cstdint>
#include <vector>

#include "core/ragged.h"
#include "core/shape.h"

namespace pith {

// What a scorer asks for; only this is computed.
struct EvidenceNeeds {
    int window = 0;            // observed queries: the last `window` ones (0: none)
    bool window_mean = false;  // mean over the window of A
    bool window_sq = false;    // sum over the window of (group mean of A)²
    bool last_query = false;   // A of the last query
    bool running_sum = false;  // column sums of A over all queries so far, carried through compaction
    int running_last = 0;      // with running_sum: only the last so many queries (0: all)
    bool key_norm = false;     // |k|₂ after RoPE

    bool any() const { return window_mean || window_sq || last_query || running_sum || key_norm; }
    bool any_attention() const { return window_mean || window_sq || last_query || running_sum; }
    // The union: what two scorers need together.
    EvidenceNeeds merged(const EvidenceNeeds & other) const;
    bool operator==(const EvidenceNeeds &) const = default;
};

struct LayerEvidence {
    int layer = 0;
    int n_kv_heads = 0;
    int n_group = 0;
    int64_t n_seen = 0;  // tokens seen so far; the newest entry's position is n_seen - 1
    int n_window = 0;    // queries really observed: min(needs.window, tokens there are)

    Ragged<int32_t> positions;  // [K] original positions, ascending: also the lanes' lengths
    Ragged<float> window_mean;  // [H]
    Ragged<float> window_sq;    // [K]
    Ragged<float> last_query;   // [H]
    Ragged<float> running_sum;  // [H]
    Ragged<float> key_norm;     // [K]

    int length(int kv_head) const { return positions.length(kv_head); }
};

}  // namespace pith
