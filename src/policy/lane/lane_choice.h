// lane_choice.h - what lanes keep, lane by lane. Stage: allocate, select.
// Pure C++: no ggml, no I/O.
#pragma once

#include <cstdint>
#include <vector>

#include "core/ragged.h"
#include "core/tasks.h"

namespace pith {

// The entries one lane keeps, and the order in which it gives them back if its share shrinks later (cascade).
struct LaneChoice {
    std::vector<int32_t> keep;    // indices into the lane, ascending, protected ones included
    std::vector<float> priority;  // of the kept entries; the lowest goes first, of equals the older one; any value if protected
};

// Of all lanes of a layer.
struct LayerChoice {
    Ragged<int32_t> keep;    // [K]
    Ragged<float> priority;  // [K]

    void push_lane(const LaneChoice & lane) {
        keep.push_row(lane.keep);
        priority.push_row(lane.priority);
    }
};

// Lanes that do not look at each other: choose(kv_head, lane) for each, side by side. Overwrites `choice`.
template <class Choose>
Status choose_by_lane(int n_lanes, const RunTasks & run, Choose choose, LayerChoice & choice) {
    std::vector<LaneChoice> lanes(static_cast<size_t>(n_lanes));
    PITH_RETURN_IF_ERROR(run(n_lanes, [&](int h) { choose(h, lanes[static_cast<size_t>(h)]); }));
    choice = {};
    for (const LaneChoice & lane : lanes) { choice.push_lane(lane); }
    return {};
}

}  // namespace pith
