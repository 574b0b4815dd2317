// protection.h - which entries of a lane no policy may evict, as index ranges. Stage: select.
// Pure C++: no ggml, no I/O.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "pith/position_span.h"
#include "policy/evidence/layer_view.h"

namespace pith {

// Sinks and pinned spans go by original position, the recent window by the order in the lane.
struct Protection {
    int n_sinks = 0;                   // original positions below this
    int n_recent = 0;                  // the newest entries of the lane
    std::vector<PositionSpan> pinned;  // any order, may overlap
};

// positions ascending. Appends nothing twice: the ranges are ascending, disjoint and not touching.
// Cost: O(spans · log length).
std::vector<IndexRange> protected_ranges(const Protection & protection, std::span<const int32_t> positions);

}  // namespace pith
