// median.h - the middle of some measurements. Stage: core.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace pith {

// The mean of the two middle ones where there is no single middle; 0 for nothing.
inline double median(std::vector<double> values) {
    if (values.empty()) { return 0; }
    std::sort(values.begin(), values.end());
    const size_t middle = values.size() / 2;
    return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

}  // namespace pith
