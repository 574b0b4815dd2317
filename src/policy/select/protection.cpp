// protection.cpp - sinks, pinned spans and the recent window as index ranges of a lane.
#include "policy/select/protection.h"

#include <algorithm>

namespace pith {

std::vector<IndexRange> protected_ranges(const Protection & protection, std::span<const int32_t> positions) {
    const auto index_of = [&](int32_t position) {
        return static_cast<int>(std::lower_bound(positions.begin(), positions.end(), position) - positions.begin());
    };
    const auto length = static_cast<int>(positions.size());
    std::vector<IndexRange> ranges;
    ranges.push_back({0, index_of(protection.n_sinks)});
    for (const PositionSpan & span : protection.pinned) { ranges.push_back({index_of(span.begin), index_of(span.end)}); }
    ranges.push_back({std::max(0, length - protection.n_recent), length});

    std::erase_if(ranges, [](const IndexRange & range) { return range.begin >= range.end; });
    std::sort(ranges.begin(), ranges.end(), [](const IndexRange & a, const IndexRange & b) { return a.begin < b.begin; });
    std::vector<IndexRange> merged;
    for (const IndexRange & range : ranges) {
        if (!merged.empty() && range.begin <= merged.back().end) {
            merged.back().end = std::max(merged.back().end, range.end);
        } else {
            merged.push_back(range);
        }
    }
    return merged;
}

}  // namespace pith
