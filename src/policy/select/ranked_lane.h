// ranked_lane.h - a lane's choice from the order in which its entries matter. Stage: select.
// Pure C++: no ggml, no I/O.
#pragma once

#include <cstdint>
#include <span>

#include "policy/evidence/layer_view.h"
#include "policy/lane/lane_choice.h"

namespace pith {

// The lane that keeps its protected entries and `ranked`: candidates, those to be given back last first.
// Cost: O(entries kept · log).
LaneChoice ranked_lane(std::span<const IndexRange> protected_ranges, std::span<const int32_t> ranked);

}  // namespace pith
