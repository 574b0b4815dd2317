// swaps.cpp - lanes as they would be chosen from all of their entries.
#include "policy/lane/swaps.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace pith {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kOwn = 0x1p-10F;  // so that of what is around an entry the entry itself comes first

}  // namespace

std::vector<float> wants_of(const LaneOfBoth & lane) {
    const size_t n = lane.positions.size();
    std::vector<float> wants(n);
    std::vector<size_t> peaks;  // a queue of falling values, whose front is the most in sight
    size_t front = 0;
    size_t next = 0;
    for (size_t i = 0; i < n; ++i) {
        for (; next < n && lane.positions[next] <= lane.positions[i] + kWantedAround; ++next) {
            while (peaks.size() > front && lane.paid[peaks.back()] <= lane.paid[next]) { peaks.pop_back(); }
            peaks.push_back(next);
        }
        while (lane.positions[peaks[front]] < lane.positions[i] - kWantedAround) { ++front; }
        wants[i] = lane.is_protected[i] != 0 ? kInfinity : lane.paid[peaks[front]] + kOwn * lane.paid[i];
    }
    return wants;
}

LaneSwaps choose_swaps(const LaneOfBoth & lane, std::span<const float> wants, int64_t n) {
    std::vector<int32_t> order(lane.positions.size());
    std::iota(order.begin(), order.end(), 0);
    const auto border = order.begin() + static_cast<std::ptrdiff_t>(n);
    std::ranges::nth_element(order, border, [&](int32_t a, int32_t b) {
        const auto i = static_cast<size_t>(a);
        const auto j = static_cast<size_t>(b);
        if (wants[i] != wants[j]) { return wants[i] > wants[j]; }
        if (lane.is_cold[i] != lane.is_cold[j]) { return lane.is_cold[i] < lane.is_cold[j]; }
        return a > b;
    });
    LaneSwaps swaps;
    for (int64_t r = 0; r < std::ssize(order); ++r) {
        const int32_t entry = order[static_cast<size_t>(r)];
        const bool is_cold = lane.is_cold[static_cast<size_t>(entry)] != 0;
        if (r < n && is_cold) { swaps.in.push_back(entry); }
        if (r >= n && !is_cold) { swaps.out.push_back(entry); }
    }
    std::ranges::sort(swaps.in);
    std::ranges::sort(swaps.out);
    return swaps;
}

}  // namespace pith
