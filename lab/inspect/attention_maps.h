// attention_maps.h - what the model's own heads attend to in a text: queries by keys, pooled to a bounded size. Stage: inspect.
//
// A map has a row for each run of queries and a column for each run of keys, as many of both (n_cells), each of `cell` tokens
// (the last may be shorter). A value is the mean, over the cell's queries, of the attention that they pay to all of its keys
// together: rows sum to 1. Cells of keys behind their queries are 0.
//   Without gates (Attention-Gate, Figure 3 (i)): exact. The prompt is read in chunks of one cell, and each chunk's queries are
//   observed when they are the newest: over what the cache holds then, which is all that they could see.
//   With gates (Model::gate()): the prompt is read under policy `gated`, and queries are observed afterwards, over the entries
//   that the gates have left. A query's own and its most recent keys, which it saw although a gate said no, are not there, and
//   what is left sums to 1 without them; a query of which nothing is left pays nothing. Of a long text so many queries are
//   sampled that their rows take kMostRowBytes.
// Memory:  one chunk's rows beside the cache; with gates up to 256 MiB of sampled queries and as much of their rows; maps of
//          n_cells² floats.
// Errors:  kInvalidArgument (no such head, no tokens), kUnsupported (a layer that sees a window only), kCancelled, those of
//          sessions.
// Threads: one at a time.
// Paper:   Attention-Gate (Zeng et al., 2024), Figures 3 to 5.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "pith/model.h"

namespace pith {

struct MapHead {
    int layer = 0;
    int head = 0;  // query head
    bool operator==(const MapHead &) const = default;
};

struct AttentionMapOptions {
    std::vector<MapHead> heads;
    int most_cells = 256;  // of a side
    int n_threads = 0;
    std::function<void(int n_done, int n_total)> progress;
    const std::atomic<bool> * cancel = nullptr;
};

struct AttentionMap {
    MapHead head;
    bool gated = false;
    int n_tokens = 0;
    int cell = 1;               // tokens of a side
    int n_cells = 0;            // ⌈n_tokens / cell⌉
    std::vector<int> n_rows;    // [n_cells] queries that each row is the mean of
    std::vector<float> values;  // [n_cells][n_cells]: queries by keys

    float at(int query_cell, int key_cell) const {
        return values[static_cast<size_t>(query_cell) * static_cast<size_t>(n_cells) + static_cast<size_t>(key_cell)];
    }
};

// One for each of options.heads, in their order.
Result<std::vector<AttentionMap>> attention_maps(const Model & model, std::span<const int32_t> tokens,
                                                 const AttentionMapOptions & options);

}  // namespace pith
