// layer_top.h - the candidates of one layer, and how many of its best each lane holds. Stage: allocate.
// Pure C++: no ggml, no I/O.
//
// Order: the higher score; of equals the newer entry; of equally new ones the lower head. Within a lane this is the order of
// the selector `topk`.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/ragged.h"
#include "policy/evidence/layer_view.h"

namespace pith {

// Both [K][net length], ascending in position: what no protected range covers.
struct Candidates {
    Ragged<float> scores;
    Ragged<int32_t> positions;
};

Candidates gather_candidates(const LayerView & layer);

// [K] how many of the layer's n best each lane holds; all, when there are fewer.   Cost: O(candidates) (partial selection).
std::vector<int64_t> count_top(const Candidates & candidates, int64_t n);

// Of each lane its counts[h] best, or all but these.   Cost: O(candidates).
Candidates top_of(const Candidates & candidates, std::span<const int64_t> counts);
Candidates rest_of(const Candidates & candidates, std::span<const int64_t> counts);

}  // namespace pith
