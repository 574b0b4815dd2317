// svg_axis.cpp - see svg_axis.h.
#include "figures/svg_axis.h"

#include <algorithm>
#include <cmath>

namespace pith::report {
namespace {

constexpr size_t kMostTicks = 7;

// A power of ten times 1, 2 or 5, near a fifth of the range.
double round_step(double range) {
    const double rough = range / 5;
    const double power = std::pow(10.0, std::floor(std::log10(rough)));
    const double part = rough / power;
    return power * (part < 1.5 ? 1 : part < 3.5 ? 2 : part < 7.5 ? 5 : 10);
}

// From the last one not above `low` to the first one not below `high`.
std::vector<double> log_ticks(double low, double high) {
    constexpr double kSlack = 1e-9;
    std::vector<double> all;
    for (int power = static_cast<int>(std::floor(std::log10(low))); all.empty() || all.back() < high * (1 - kSlack); ++power) {
        for (const double digit : {1.0, 2.0, 5.0}) {
            if (!all.empty() && all.back() >= high * (1 - kSlack)) { break; }
            const double tick = digit * std::pow(10.0, power);
            if (tick <= low * (1 + kSlack)) { all.clear(); }
            all.push_back(tick);
        }
    }
    if (all.size() <= kMostTicks) { return all; }
    // Powers of ten alone, every n-th of them; the ends of the axis go out to them.
    const int first = static_cast<int>(std::floor(std::log10(low) + kSlack));
    const int last = static_cast<int>(std::ceil(std::log10(high) - kSlack));
    const int step = (last - first + static_cast<int>(kMostTicks) - 1) / static_cast<int>(kMostTicks);
    std::vector<double> powers;
    for (int power = first; power < last + step; power += step) { powers.push_back(std::pow(10.0, power)); }
    return powers;
}

}  // namespace

double Axis::at(double value) const {
    const double part = log ? std::log(value / low) / std::log(high / low) : (value - low) / (high - low);
    return from + (to - from) * part;
}

Axis axis_around(double low, double high, bool log) {
    Axis axis;
    axis.log = log;
    if (log) {
        if (high <= low) { high = low * 2; }
        axis.ticks = log_ticks(low, high);
    } else {
        if (high <= low) { high = low + 1; }
        const double step = round_step(high - low);
        const auto first = static_cast<long long>(std::floor(low / step));
        const auto last = static_cast<long long>(std::ceil(high / step));
        for (long long i = first; i <= last; ++i) { axis.ticks.push_back(static_cast<double>(i) * step); }
    }
    axis.low = axis.ticks.front();
    axis.high = axis.ticks.back();
    return axis;
}

Axis axis_between(double low, double high, bool log) {
    Axis axis = axis_around(low, high, log);
    if (high <= low) { return axis; }
    axis.low = low;
    axis.high = high;
    std::erase_if(axis.ticks, [&](double tick) { return tick < low || tick > high; });
    return axis;
}

}  // namespace pith::report
