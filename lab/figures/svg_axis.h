// svg_axis.h - where numbers stand on an axis, and which round numbers are written beside it. Stage: figures.
// Pure C++.
#pragma once

#include <vector>

namespace pith::report {

// From `low` at pixel `from` to `high` at pixel `to`. REQUIRES: low < high; above 0 where log.
struct Axis {
    double low = 0, high = 1;
    bool log = false;
    double from = 0, to = 1;
    std::vector<double> ticks;  // round numbers, ascending

    double at(double value) const;
};

// Round numbers around low … high: about five steps of 1, 2 or 5 times a power of ten; log: 1, 2 and 5 times powers of ten, or
// powers alone where these are many. Equal ends: room is made around them.
Axis axis_around(double low, double high, bool log);
// Ends as given, and the round numbers between them.
Axis axis_between(double low, double high, bool log);

}  // namespace pith::report
