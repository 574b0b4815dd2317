// ranked_lane.cpp - ranks become priorities, protected entries join, all ascending.
#include "policy/select/ranked_lane.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace pith {

LaneChoice ranked_lane(std::span<const IndexRange> protected_ranges, std::span<const int32_t> ranked) {
    std::vector<std::pair<int32_t, float>> entries;  // (index, priority)
    for (size_t rank = 0; rank < ranked.size(); ++rank) { entries.emplace_back(ranked[rank], -static_cast<float>(rank)); }
    for (const IndexRange & range : protected_ranges) {
        for (int32_t j = range.begin; j < range.end; ++j) { entries.emplace_back(j, 0.0F); }
    }
    std::sort(entries.begin(), entries.end());
    LaneChoice lane;
    for (const auto & [index, priority] : entries) {
        lane.keep.push_back(index);
        lane.priority.push_back(priority);
    }
    return lane;
}

}  // namespace pith
