// ranked_lane.cpp - ranks become priorities, protected entries join, all ascending.
#include "select/ranked_lane.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace pith {

void add_ranked_lane(std::span<const IndexRange> protected_ranges, std::span<const int32_t> ranked, LayerChoice & choice) {
    std::vector<std::pair<int32_t, float>> entries;  // (index, priority)
    for (size_t rank = 0; rank < ranked.size(); ++rank) entries.emplace_back(ranked[rank], -static_cast<float>(rank));
    for (const IndexRange & range : protected_ranges) {
        for (int32_t j = range.begin; j < range.end; ++j) entries.emplace_back(j, 0.0F);
    }
    std::sort(entries.begin(), entries.end());
    std::vector<int32_t> keep;
    std::vector<float> priority;
    for (const auto & [index, of_index] : entries) {
        keep.push_back(index);
        priority.push_back(of_index);
    }
    choice.keep.push_row(keep);
    choice.priority.push_row(priority);
}

}  // namespace pith
