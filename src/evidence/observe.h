// observe.h - what given queries pay to the entries of a layer: the second, small product behind all attention evidence.
// Stage: attention → evidence.
//
// The forward pass stays fused; this computes softmax(scale·q·K) again for the observed queries only, block by block, and
// reduces it on the back end: only one number per entry and head comes to the host. On the CPU by cpu_observe.h, elsewhere, and
// of lanes on a device, as a graph of ggml's operations, whose products have the precision of the K type.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "attention/cpu/hidden_keys.h"
#include "cache/ragged_cache.h"
#include "core/ragged.h"
#include "device/graph_runner.h"
#include "policy/evidence/evidence.h"

namespace pith {

// Whether what queries pay to a layer's lanes is computed where these lie, in a device's memory, by a graph; else this
// machine's CPU computes it.
bool is_observed_there(const RaggedCache & cache, int layer);

struct ObserveWants {
    bool column_sum = false;              // Σ over the queries of A
    bool group_sq = false;                // Σ over the queries of (group mean of A)²
    bool column_max = false;              // max over the queries of A
    bool last = false;                    // A of the last query
    bool head_sq = false;                 // Σ over the queries of A²
    bool entropy = false;                 // -Σ over queries, and entries before the first of them, of A log A
    std::optional<HeadDistance> profile;  // mean over the queries of the row as this distance wants it
    bool rows = false;                    // the rows of A themselves

    bool operator==(const ObserveWants &) const = default;
};

struct Observed {
    Ragged<float> column_sum;     // [H]
    Ragged<float> column_max;     // [H]
    Ragged<float> group_sq;       // [K]
    Ragged<float> last;           // [H]
    Ragged<float> head_sq;        // [H]
    std::vector<double> entropy;  // [H]
    Ragged<float> profile;        // [H]
    Ragged<float> rows;           // [H · n], head-major
};

// What one sequence's queries are to tell, as below: of several, in one graph.
struct ObserveTask {
    const RaggedCache * cache = nullptr;
    int seq = 0;
    const float * queries = nullptr;
    std::span<const int32_t> positions;
    ObserveWants wants;
    Observed * out = nullptr;
    const HiddenKeys * hidden = nullptr;
};
// In a graph, whatever the runner has. Of lanes in a device's memory that lie side by side the operations are the same however
// many there are, where sums are all that is wanted (bucket_observe.h).
Status observe_together(GraphRunner & runner, int layer, std::span<const ObserveTask> tasks);

// queries f32 [n][H][head_dim] after RoPE, ascending query_positions [n]. A query sees the entries whose position is not above
// its own; one that sees none of a lane pays it nothing (a row of zeros).
// hidden: keys that a gate said no to (in a graph only); may be nullptr.
// REQUIRES: n >= 1.
// Cost: O(n · H · lane length · d); memory for one block of queries at a time, and on the CPU for a few lanes' keys in f32.
Status observe_queries(GraphRunner & runner, const RaggedCache & cache, int seq, int layer, const float * queries,
                       std::span<const int32_t> query_positions, const ObserveWants & wants, Observed & out,
                       const HiddenKeys * hidden = nullptr);

}  // namespace pith
