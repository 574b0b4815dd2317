// spread.h - how a measure varies over heads, lanes or layers. Stage: statistics.
// Pure.   Cost: one sort.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

namespace pith {

// Quartiles and median lie between neighbours where they fall between them (linearly, as NumPy's default).
struct Spread {
    double mean = 0;
    double deviation = 0;  // standard, over n - 1; 0 for one value
    double least = 0, low_quarter = 0, median = 0, high_quarter = 0, largest = 0;
};

// No values: all 0.
inline Spread spread_of(std::vector<double> values) {
    Spread spread;
    if (values.empty()) { return spread; }
    std::sort(values.begin(), values.end());
    const auto n = static_cast<double>(values.size());
    for (const double value : values) { spread.mean += value / n; }
    for (const double value : values) { spread.deviation += (value - spread.mean) * (value - spread.mean); }
    spread.deviation = values.size() > 1 ? std::sqrt(spread.deviation / (n - 1)) : 0;
    const auto at = [&](double share) {
        const double place = share * (n - 1);
        const auto below = static_cast<size_t>(place);
        const size_t above = std::min(below + 1, values.size() - 1);
        return values[below] + (place - static_cast<double>(below)) * (values[above] - values[below]);
    };
    spread.least = values.front();
    spread.low_quarter = at(0.25);
    spread.median = at(0.5);
    spread.high_quarter = at(0.75);
    spread.largest = values.back();
    return spread;
}

}  // namespace pith
